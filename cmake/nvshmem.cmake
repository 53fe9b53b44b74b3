# The module libbaton_nvshmem.so, where NVSHMEM is: PyPI's nvidia-nvshmem-cu13, which Python says where it is, or BATON_NVSHMEM_ROOT.
if(NOT BATON_NVSHMEM_ROOT)
  find_package(Python3 QUIET COMPONENTS Interpreter)
  if(Python3_FOUND)
    execute_process(COMMAND ${Python3_EXECUTABLE} -c "import nvidia.nvshmem as n; print(list(n.__path__)[0])"
                    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  set(BATON_NVSHMEM_ROOT "${found}" CACHE PATH "Folder of NVSHMEM, with include and lib in it; empty: what Python knows" FORCE)
endif()
if(NOT EXISTS "${BATON_NVSHMEM_ROOT}/include/nvshmem.h")
  message(STATUS "NVSHMEM not found: libbaton_nvshmem.so, for ranks beyond the p2p group on GPUs, is not built. "
                 "`pip install nvidia-nvshmem-cu13`, or set BATON_NVSHMEM_ROOT")
  return()
endif()
add_library(baton_nvshmem MODULE src/nvshmem/module.cu src/nvshmem/per_expert.cu src/nvshmem/per_rank_chunks.cu
                           src/nvshmem/per_rank_two_levels.cu src/nvshmem/lost_rank.cu ${baton_build_id_source})
target_link_libraries(baton_nvshmem PRIVATE baton_internal ${BATON_NVSHMEM_ROOT}/lib/libnvshmem_device.a
                                            ${BATON_NVSHMEM_ROOT}/lib/libnvshmem_host.so.3 CUDA::cudart_static)
target_include_directories(baton_nvshmem SYSTEM PRIVATE ${BATON_NVSHMEM_ROOT}/include)
# NVSHMEM's own functions spill a word or two; that kernels of the library do not, its own build says.
target_compile_options(baton_nvshmem PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr>)
set_target_properties(baton_nvshmem PROPERTIES CUDA_SEPARABLE_COMPILATION ON CUDA_RESOLVE_DEVICE_SYMBOLS ON
                      CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden)
