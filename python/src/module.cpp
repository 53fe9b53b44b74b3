// baton._core: what baton's Python package has of the library. Its users are the classes and functions of the package.
#include "baton/version.hpp"

#include <nanobind/stl/string.h>

#include "exchange.hpp"
#include "ranks.hpp"

NB_MODULE(_core, module) {
  // Arrays of a round of CPU ranks that is never ended stay, and may be views of its communicator: no news at a program's end.
  nanobind::set_leak_warnings(false);
  module.doc() = "The library as the package baton uses it; for users, see baton.";
  module.def("version", &baton::version);
  module.def("build_info", &baton::build_info);
  baton::python::bind_errors(module);
  baton::python::bind_exchange(module);
  baton::python::bind_world(module);
  baton::python::bind_communicator(module);
  baton::python::bind_products(module);
  baton::python::bind_padded(module);
  baton::python::bind_attention(module);
}
