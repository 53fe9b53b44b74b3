#pragma once
// What generate shows while it runs and when it is done, for people and for machines.
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "cli/commands/generate.hpp"
#include "cli/generation.hpp"
#include "cli/library_attention.hpp"
#include "cli/model/qwen3_moe.hpp"
#include "cli/model/reference_moe.hpp"
#include "cli/view/terminal.hpp"

namespace baton::cli {

/// Whatever runs the experts and makes attention, with how to describe it.
struct generate_backend {
  open_exchange exchange;  // exchange.experts null: the reference
  std::unique_ptr<model::reference_moe> reference;
  std::unique_ptr<library_attention> attention;  // null: the model's own, on the host
  model::moe_backend& experts() const {
    return exchange.experts ? static_cast<model::moe_backend&>(*exchange.experts) : *reference;
  }
};

/// One run of the command: what went in, and what came out so far.
struct generate_run {
  const generate_options& options;
  std::ostream& out;
  style marks;
  std::vector<prompt> prompts = {};
  std::vector<sequence> sequences = {};
  generation_times times = {};
};

/// How many continuations were as expected, of how many that were expected at all.
struct expectation_score {
  int good = 0;
  int all = 0;
};
expectation_score score(const generate_run& run);

/// Which prompt, on which rank, and its text.
void print_heading(const generate_run& run, std::size_t i);
/// Whether sequence i is as expected, and where it is not; nothing where nothing was expected.
void print_verdict(const generate_run& run, std::size_t i);
/// The sequences that were not shown live.
void print_others(const generate_run& run);
void print_summary(const generate_run& run, const generate_backend& moe, const model::phase_times& network);

nlohmann::json result_json(const generate_run& run, const generate_backend& moe,
                           const model::phase_times& network);

}  // namespace baton::cli
