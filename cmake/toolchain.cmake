# Compiler facts, in one place: warnings, hardening, sanitizers, portable binaries, CUDA.

# Errors in our own builds; a compiler that we have not met must not stop a project that takes baton in.
function(baton_warnings target)
  if(PROJECT_IS_TOP_LEVEL)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wconversion;-Werror;-Wno-error=maybe-uninitialized>)
  endif()
endfunction()

# What reads files that nobody vouches for: a fault in it ends the process rather than being taken advantage of.
function(baton_hardened target)
  if(BATON_SANITIZE OR NOT PROJECT_IS_TOP_LEVEL)
    return()
  endif()
  set(is_optimised "$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release,RelWithDebInfo,MinSizeRel>>")
  target_compile_options(${target} PRIVATE "$<${is_optimised}:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=3;-D_GLIBCXX_ASSERTIONS;-fstack-protector-strong>")
  get_target_property(kind ${target} TYPE)
  if(kind STREQUAL EXECUTABLE)
    target_link_options(${target} PRIVATE -Wl,-z,relro,-z,now)
  endif()
endfunction()

if(BATON_SANITIZE)
  add_compile_options(-fsanitize=${BATON_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1
                      -Wno-maybe-uninitialized)  # the instrumentation confuses that warning
  add_link_options(-fsanitize=${BATON_SANITIZE})
endif()

# g++ collects garbage whenever a file takes 128 MB more: a seventh of the time of sources that are compiled together, which take 2 GB.
if(BATON_TOGETHER AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1000000>)
endif()

# baton_quick_to_compile(TARGET LEVEL): of sources that compute little but include or instantiate much. Optimising a file that uses
# JSON or CLI11 takes g++ 10 s. With a sanitizer everything is at -Og, which takes no longer than -O0.
function(baton_quick_to_compile target level)
  if(BATON_SANITIZE)
    set(level -Og)
  endif()
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${level}>)
endfunction()

# baton_together(TARGET): with BATON_TOGETHER, or if somebody asks for CMAKE_UNITY_BUILD, its sources are compiled as one
# file; so names of their own must differ. Those with CUDA are apart: what they include has names of its own.
function(baton_together target)
  if(NOT BATON_TOGETHER AND NOT CMAKE_UNITY_BUILD)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)  # of types that are a source's own
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    set(group together)
    if(source MATCHES "_cuda\\.cpp$")
      set(group together_with_cuda)
    endif()
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
  endforeach()
endfunction()

# Programs and tests run on machines other than the one that built them. (A static libstdc++ would hide
# exceptions from AddressSanitizer.) With a sanitizer each of a thousand tests starts a program of 100 MB: one that stands where
# it was linked to stand starts in half the time.
function(baton_portable_link target)
  if(BATON_SANITIZE)
    target_link_options(${target} PRIVATE -no-pie)
  else()
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endfunction()

# baton_quick_to_link(TARGET): of what only the tests run, and only in a folder that is for running all of them once.
if(BATON_TOGETHER)
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=gold BATON_GOLD_LINKS)
endif()
function(baton_quick_to_link target)
  if(BATON_TOGETHER AND BATON_GOLD_LINKS)
    target_link_options(${target} PRIVATE -fuse-ld=gold)
  endif()
endfunction()

if(BATON_CUDA)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90a-real)
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
  enable_language(CUDA)
  find_package(CUDAToolkit 13 REQUIRED)
  string(REPLACE ";" " " BATON_CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}")
endif()

# -std=c++20 by hand: CMake 3.25 (Debian 12) does not know that nvcc 13 can do C++20. Lines of sources change no instruction and
# take a tenth of the time of a file of kernels: for who profiles one.
function(baton_cuda_options target)
  set(launcher ${PROJECT_SOURCE_DIR}/cmake/kept_listing.sh ${CMAKE_CUDA_COMPILER_LAUNCHER})
  set_target_properties(${target} PROPERTIES CUDA_COMPILER_LAUNCHER "${launcher}")
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr;-Xptxas=--warn-on-spills;$<$<BOOL:${BATON_LINE_INFO}>:-lineinfo>>")
endfunction()

# baton_listing(KERNELS...): the PTX of each kernel file and what ptxas said of it, both of its one compilation, under
# listings/ of the build folder, for tools/check_ptx.py. -save-temps is --keep in the one spelling with which ccache
# knows that it does not know what to restore.
function(baton_listing)
  foreach(source IN LISTS ARGN)
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${source})
    cmake_path(REMOVE_EXTENSION path)
    set(listing ${PROJECT_BINARY_DIR}/listings/${path})
    cmake_path(GET listing PARENT_PATH folder)
    file(MAKE_DIRECTORY ${folder})
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-save-temps;--keep-dir=${folder};-Xptxas=-v"
                                                     OBJECT_OUTPUTS "${listing}.ptx;${listing}.ptxas")
  endforeach()
endfunction()
