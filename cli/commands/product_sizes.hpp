#pragma once
// What options of benchmarks of products are, dense and grouped, and what is refused.
#include <string>
#include <vector>

#include "cli/bench/require_within.hpp"

namespace baton::cli {

inline constexpr int largest_size = 65536;

/// "8,16,8": the sizes between commas, each from 1 to largest_size; empty if one of them is not.
std::vector<int> product_sizes(const std::string& word);

/// --repeats, --sustained-ms, --sms. @throws invalid_argument  one is out of range
template <class Options>
void require_measuring(const Options& o) {
  require_within("--repeats", o.repeats, 1, 1 << 20);
  require_within("--sustained-ms", o.sustained_ms, 0, 60'000);
  require_within("--sms", o.num_sms, 0, 1 << 16);
}

}  // namespace baton::cli
