# Which sources a build is of, as a number: a hash of all that the library and its module are compiled from. Of a script, as
# well: `cmake -DOUT=FILE -P cmake/build_id.cmake` writes the source that says it, anew only where it differs.
if(CMAKE_SCRIPT_MODE_FILE)
  get_filename_component(root ${CMAKE_SCRIPT_MODE_FILE}/../.. ABSOLUTE)
  file(GLOB_RECURSE sources RELATIVE ${root} ${root}/src/* ${root}/include/*)
  foreach(source IN LISTS sources)
    file(SHA256 ${root}/${source} hash)
    string(APPEND all "${source} ${hash}\n")
  endforeach()
  string(SHA256 hash "${all}")
  string(SUBSTRING ${hash} 0 16 id)
  file(CONFIGURE OUTPUT ${OUT} CONTENT "#include \"exec/build_id.hpp\"\n\nstd::uint64_t baton::build_id() noexcept {\n  return 0x@id@u;\n}\n" @ONLY)
  return()
endif()
set(baton_build_id_source ${CMAKE_CURRENT_BINARY_DIR}/build_id.cpp)
file(GLOB_RECURSE hashed CONFIGURE_DEPENDS src/* include/*)
add_custom_command(OUTPUT ${baton_build_id_source} DEPENDS ${hashed} ${CMAKE_CURRENT_LIST_DIR}/build_id.cmake
                   COMMAND ${CMAKE_COMMAND} -DOUT=${baton_build_id_source} -P ${CMAKE_CURRENT_LIST_DIR}/build_id.cmake
                   COMMAND ${CMAKE_COMMAND} -E touch ${baton_build_id_source} VERBATIM)
# Of its own, whatever else is compiled as one: it changes with every line.
set_source_files_properties(${baton_build_id_source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
