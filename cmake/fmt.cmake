# fmt, compiled once rather than in every file: the rest compiles in half the time, and with sanitizers in a third.
# Debian has fmt as headers and a shared library only; programs that run on machines without libfmt.so need it
# inside. A project that takes baton in, or finds it installed, gets plain fmt::fmt.
find_package(fmt REQUIRED)
if(PROJECT_IS_TOP_LEVEL AND fmt_VERSION VERSION_GREATER_EQUAL 9 AND fmt_VERSION VERSION_LESS 10)
  add_library(baton_fmt STATIC cmake/fmt_once.cpp)
  target_include_directories(baton_fmt SYSTEM PUBLIC $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>)
  target_compile_features(baton_fmt PUBLIC cxx_std_20)
else()
  add_library(baton_fmt INTERFACE)
  target_link_libraries(baton_fmt INTERFACE fmt::fmt)
endif()
