# include/baton, libbaton.a, the checker's headers, the program, and find_package(baton).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(baton_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/baton)

install(TARGETS baton baton_check EXPORT baton-targets)
install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY sim src/base src/exec DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/baton-check FILES_MATCHING PATTERN "*.hpp")
install(EXPORT baton-targets NAMESPACE baton:: DESTINATION ${baton_config_dir})
# In lib beside bin, where the program looks for it, whatever the system calls its own lib. What builds the program alone, as the
# wheel does, has none.
if(TARGET baton_nvshmem)
  install(TARGETS baton_nvshmem LIBRARY DESTINATION lib OPTIONAL)
endif()
if(BATON_PROGRAM)
  install(TARGETS baton_program)
endif()

configure_package_config_file(cmake/baton-config.cmake.in baton-config.cmake INSTALL_DESTINATION ${baton_config_dir})
write_basic_package_version_file(baton-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/baton-config.cmake ${PROJECT_BINARY_DIR}/baton-config-version.cmake
        DESTINATION ${baton_config_dir})
