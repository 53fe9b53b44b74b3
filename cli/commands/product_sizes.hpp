#pragma once
// What options of benchmarks of products are, dense and grouped, and what is refused.
#include <string>
#include <vector>

#include "cli/commands/bench_gemm.hpp"

namespace baton::cli {

inline constexpr int largest_size = 65536;

/// "8,16,8": the sizes between commas, each from 1 to largest_size; empty if one of them is not.
std::vector<int> product_sizes(const std::string& word);

/// @throws invalid_argument  "--repeats: 0 is not from 1 to 10"
void require_within(const char* what, int value, int least, int most);
/// --repeats, --sustained-ms, --sms. @throws invalid_argument  one is out of range
void require_measuring(const bench_gemm_options& options);

}  // namespace baton::cli
