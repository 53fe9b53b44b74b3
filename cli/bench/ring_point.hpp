#pragma once
// Measured points of `baton bench ring`, and how they are told.
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "baton/ring_gemm.hpp"

namespace baton::cli {

struct ring_run {
  std::string device;  // "cpu" or "cuda"
  std::string gpu, date;
  std::string why_no_hand_offs;
  std::string cublas;  // its version
  std::string why_no_cublas;
  int driver = 0;
};

/// Cycles per hand-off; a sample a block and repeat.
struct hand_off_point {
  ring_strategy strategy{};
  int stages = 0, readers = 0, hand_offs = 0;
  std::vector<double> cycles;
};

/// m = n = k = size.
struct ring_gemm_point {
  std::optional<ring_strategy> strategy;  // none: cuBLAS, for comparison
  int size = 0;
  std::string tiles;
  std::string wrong;  // the first wrong element; empty: all that were looked at are exact
  std::vector<double> samples_us;

  double flops() const { return 2.0 * size * size * size; }
  double teraflops() const;  // of the median
};

nlohmann::json to_json(const ring_run& run, const hand_off_point& point);
nlohmann::json to_json(const ring_run& run, const ring_gemm_point& point);

void print_header(const ring_run& run, std::ostream& out);
/// Points of one strategy: a row for each number of readers, a column for each of stages.
void print_hand_offs(const std::vector<hand_off_point>& points, std::ostream& out);
void print_gemm_header(std::ostream& out);
/// `reference_us`: cuBLAS's median at this size; 0: not measured.
void print_gemm(const ring_gemm_point& point, double reference_us, std::ostream& out);

}  // namespace baton::cli
