#pragma once
// One measured layer, and how it is told.
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "baton/weight_format.hpp"
#include "cli/bench/ep_point.hpp"
#include "cli/bench/gemm_run.hpp"
#include "cli/bench/grouped_points.hpp"

namespace baton::cli {

struct moe_point {
  moe_model model{};
  weight_format weights = weight_format::bf16;
  ep_config config;
  ep_rounds given;
  int ranks = 0, rounds = 1;
  double rows = 0;               // of the rank that has most of them, in the mean of the sets of inputs
  double worst = 0;              // error as a part of its bound, of the tokens that were looked at
  std::string wrong;             // what was outside; empty: nothing
  std::vector<ep_timing> steps;  // of the layer, called
  ep_form form = ep_form::fused_layer;
  ep_timing layer, exchange, experts;  // on CUDA replayed
  struct of_micro_batches {
    int exchange_sms = 0;  // of a GPU
    ep_timing layer;
  };
  std::vector<of_micro_batches> overlapped;  // if asked for

  double flops() const { return 6 * rows * model.hidden * model.intermediate; }
  const of_micro_batches* quickest_overlapped() const;  // null: none
  /// Of a rank's experts, each read once.
  double weight_bytes() const;
  /// What the roofline of this run says of the busiest rank's experts; 0: not measured.
  double least_experts_us(const gemm_run& run) const;
};

nlohmann::json to_json(const gemm_run& run, const moe_point& point);
void print_heading(const gemm_run& run, std::ostream& out);
void print(const gemm_run& run, const moe_point& point, std::ostream& out);

}  // namespace baton::cli
