#pragma once
// The command line: which commands there are, and their options.
#include <CLI/CLI.hpp>
#include <functional>
#include <ostream>

#include "cli/commands/bench_attention.hpp"
#include "cli/commands/bench_compare.hpp"
#include "cli/commands/bench_ep.hpp"
#include "cli/commands/bench_gemm.hpp"
#include "cli/commands/bench_groups.hpp"
#include "cli/commands/bench_moe.hpp"
#include "cli/commands/bench_ring.hpp"
#include "cli/commands/bench_silu.hpp"
#include "cli/commands/check.hpp"
#include "cli/commands/doctor.hpp"
#include "cli/commands/forecast.hpp"
#include "cli/commands/generate.hpp"
#include "cli/commands/moe.hpp"
#include "cli/commands/quantize.hpp"

namespace baton::cli {

/// Everything that can be given, whichever command was.
struct arguments {
  generate_options generate;
  moe_options moe;
  quantize_options quantize;
  doctor_options doctor{};
  bench_ep_options bench;
  bench_attention_options bench_attention{};
  bench_gemm_options bench_gemm{};
  bench_groups_options bench_groups{};
  bench_moe_options bench_moe{};
  bench_ring_options bench_ring{};
  bench_silu_options bench_silu{};
  bench_compare_options bench_compare{};
  check_options check{};
  forecast_options forecast{};
  bool version_json = false;
  std::function<int(std::ostream&)> command;  // the chosen one
  bool is_json = false;                       // the chosen one speaks JSON
};

/// Describes commands and options to `app`; parsing then fills `chosen`, which must outlive `app`.
void declare(CLI::App& app, arguments& chosen);

}  // namespace baton::cli
