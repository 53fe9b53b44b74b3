#pragma once
// What benchmarks say of their samples, and when they ran.
#include <string>
#include <vector>

namespace baton::cli {

/// 0 of nothing.
double median_of(std::vector<double> values);
/// The median distance from the median.
double mad_of(const std::vector<double>& values);
/// "2026-11-21T09:00:00Z"
std::string utc_now();

}  // namespace baton::cli
