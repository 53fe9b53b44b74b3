#pragma once
// The protocols, one function and one file each.
#include "checks/protocol_check.hpp"

namespace baton::checks {

protocol_check arrival_check();
protocol_check completion_check();
protocol_check gate_check();
protocol_check single_counter_check();
protocol_check split_counter_check();
protocol_check per_reader_flags_check();
protocol_check ring_product_check();

}  // namespace baton::checks
