# Installs the build, then configures, builds and runs consumer/ against the installed package alone.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)
file(REMOVE_RECURSE ${PREFIX} ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${PREFIX})
set(toolkit "-DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON")  # a CPU build must not ask for CUDA
if(CUDA)
  set(toolkit "")
endif()
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B ${WORK} -G Ninja -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_PREFIX_PATH=${PREFIX} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} ${toolkit}
    -DCHECK_EXAMPLE=${CMAKE_CURRENT_LIST_DIR}/../../examples/check_your_protocol.cpp)
run(${CMAKE_COMMAND} --build ${WORK})
run(${WORK}/consumer)
run(${WORK}/check_your_protocol)
run(${PREFIX}/bin/baton --version)

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
