#pragma once
// A communicator's configuration as Python says it: keywords, choices by name.
#include <nanobind/nanobind.h>

#include "baton/expert_parallel.hpp"

namespace baton::python {

/// @throws invalid_argument  a choice that there is not: names the keyword, the value and the choices
ep_config config_of(const nanobind::dict& given);
nanobind::dict dict_of(const ep_config& config);

}  // namespace baton::python
