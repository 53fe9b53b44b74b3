#pragma once
#include "sim/machine.hpp"

namespace baton::test {

/// In turn, and two that are drawn, with stores that come late.
inline const sim::options product_schedules[] = {
    {},
    {.order = sim::schedule::random, .seed = 7, .delay_stores = true, .faults = {}},
    {.order = sim::schedule::priority, .seed = 9, .delay_stores = true, .faults = {}}};

}  // namespace baton::test
