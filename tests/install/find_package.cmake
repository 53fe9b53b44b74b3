# Installs the build, then configures, builds and runs consumer/ against the installed package alone.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
file(REMOVE_RECURSE ${PREFIX} ${WORK} ${WORK}_of_page)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${PREFIX})
set(toolkit "-DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON")  # a CPU build must not ask for CUDA
if(CUDA)
  set(toolkit "")
endif()
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B ${WORK} -G Ninja -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_PREFIX_PATH=${PREFIX} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} ${toolkit})
run(${CMAKE_COMMAND} --build ${WORK})
run(${WORK}/consumer)
run(${PREFIX}/bin/baton --version)

# The checker, for a protocol of one's own: what the page about it shows, with the project's example.
set(root ${CMAKE_CURRENT_LIST_DIR}/../..)
file(READ ${root}/docs/check_your_own.md page)
string(REGEX REPLACE ".*\n```cmake\n(.*)\n```\n.*" "\\1" shown "${page}")
file(WRITE ${WORK}_of_page/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)\nproject(my_check LANGUAGES CXX)\n${shown}\n")
configure_file(${root}/examples/check_your_protocol.cpp ${WORK}_of_page/my_check.cpp COPYONLY)
run(${CMAKE_COMMAND} -S ${WORK}_of_page -B ${WORK}_of_page/build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH=${PREFIX}
    -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} ${toolkit})
run(${CMAKE_COMMAND} --build ${WORK}_of_page/build)
run(${WORK}_of_page/build/my_check)

# The module for ranks beyond the p2p group, where it was built: in lib beside bin, without the build machine's paths.
if(EXISTS ${BUILD}/libbaton_nvshmem.so)
  execute_process(COMMAND readelf -W -d ${PREFIX}/lib/libbaton_nvshmem.so OUTPUT_VARIABLE elf COMMAND_ERROR_IS_FATAL ANY)
  if(elf MATCHES "R(UN)?PATH" OR NOT elf MATCHES "NEEDED[^\n]*libnvshmem_host")
    message(FATAL_ERROR "libbaton_nvshmem.so: expected NVSHMEM by its name alone and no path, found ${elf}")
  endif()
endif()

# Hardened: position-independent, symbols bound before main(), stack canaries, checked string functions.
if(HARDENED)
  execute_process(COMMAND readelf -W -h -d -l --dyn-syms ${PREFIX}/bin/baton OUTPUT_VARIABLE elf COMMAND_ERROR_IS_FATAL ANY)
  foreach(sign "DYN \\(Position-Independent" GNU_RELRO "NOW" __stack_chk_fail __memcpy_chk)
    if(NOT elf MATCHES "${sign}")
      message(FATAL_ERROR "the program is not hardened: readelf shows no ${sign}")
    endif()
  endforeach()
endif()
