#pragma once
// Measured points of `baton bench attention --decode`, and how they are told.
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "cli/bench/decode_session.hpp"
#include "cli/bench/gemm_run.hpp"

namespace baton::cli {

struct decode_point {
  decode_size size;
  int caches = 0;         // that runs go through
  std::string why_not{};  // no kernel does it; empty: one does
  std::string wrong{};    // the first wrong value; empty: all that were looked at are right
  std::vector<double> burst_us{};
  double sustained_us = 0;  // 0: not measured

  /// 0: not measured.
  double gigabytes_per_s() const;
};

nlohmann::json to_json(const gemm_run& run, const decode_point& point);
void print_decode_header(const gemm_run& run, std::ostream& out);
void print(const gemm_run& run, const decode_point& point, std::ostream& out);

}  // namespace baton::cli
