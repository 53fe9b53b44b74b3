#pragma once
// The four kernels of the exchange, as they are in the library, in every schedule of a tiny case.
#include "checks/exchange_setting.hpp"
#include "sim/check.hpp"

namespace baton::checks {

check::result check_exchange(const exchange_setting& e, check::bounds limits = {});

}  // namespace baton::checks
