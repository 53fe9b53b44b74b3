#include "cli/commands/bench_gemm_arguments.hpp"

#include <map>
#include <string>

#include "cli/commands/argument_kinds.hpp"

namespace baton::cli {
namespace {

const std::map<std::string, gemm_tiles> gemm_tiles_names{{"automatic", gemm_tiles::automatic},
                                                         {"paired", gemm_tiles::paired},
                                                         {"wide", gemm_tiles::wide},
                                                         {"medium", gemm_tiles::medium},
                                                         {"narrow", gemm_tiles::narrow}};
const std::map<std::string, gemm_b_layout> gemm_b_layout_names{
    {name(gemm_b_layout::n_by_k), gemm_b_layout::n_by_k},
    {name(gemm_b_layout::k_by_n), gemm_b_layout::k_by_n}};
const std::map<std::string, group_routing> group_routing_names{
    {name(group_routing::uniform), group_routing::uniform},
    {name(group_routing::zipf), group_routing::zipf},
    {name(group_routing::skewed), group_routing::skewed}};

const std::map<std::string, operand_format> operand_format_names{
    {name(operand_format::bf16), operand_format::bf16},
    {name(operand_format::fp16), operand_format::fp16},
    {name(operand_format::e4m3), operand_format::e4m3}};

/// Returns --grouped.
CLI::Option* declare_points(CLI::App& command, bench_gemm_options& options) {
  command
      .add_option("--shapes", options.shapes,
                  "of the products: M,N,K, or one size for all three; N,K with --grouped")
      ->type_name("M,N,K ...")
      ->default_str("8192 4096 2048 1024 and three others on CUDA, 128 on the CPU")
      ->group("Points");
  add_count(command, "--sms", options.num_sms, "blocks of baton's product at most; 0: all SMs")
      ->group("Points");
  add_choices(command, "--format", operand_format_names, options.formats,
              "of the operands; e4m3: with scales of 1x128 and 128x128 values")
      ->default_str("bf16")
      ->group("Points");
  CLI::Option* grouped = command.add_flag("--grouped", options.grouped.wanted,
                                          "rows of groups, as of experts, by a matrix of each group");
  grouped->group("Points");
  return grouped;
}

void declare_dense(CLI::App& command, bench_gemm_options& options, CLI::Option* grouped) {
  const auto of_dense = [grouped](CLI::Option* option) {
    option->excludes(grouped)->group("Without --grouped");
  };
  of_dense(command.add_option("--out", options.out, "types of the result; of e4m3 bf16 alone")
               ->check(CLI::IsMember{{"bf16", "fp16", "fp32"}})
               ->type_name("{bf16,fp16,fp32} ...")
               ->default_str("that of the operands"));
  of_dense(add_choices(command, "--tiles", gemm_tiles_names, options.tiles,
                       "of baton's product, side by side; of e4m3 automatic, paired and medium")
               ->default_str("automatic"));
  of_dense(
      command
          .add_option("--splits", options.splits, "blocks that share out k, side by side; 0: as is quickest")
          ->check(CLI::IsMember{{0, 1, 2, 4, 8}}.description(""))  // the type says it
          ->type_name("{0,1,2,4,8} ...")
          ->default_str("0"));
  of_dense(add_choices(command, "--b", gemm_b_layout_names, options.b_layouts,
                       "how b lies; of 16-bit operands, side by side")
               ->default_str("n_by_k"));
}

void declare_grouped(CLI::App& command, bench_grouped_options& options, CLI::Option* grouped) {
  const auto of_grouped = [grouped](CLI::Option* option) { option->needs(grouped)->group("With --grouped"); };
  of_grouped(command.add_option("--models", options.models, "whose experts: both products of each")
                 ->type_name(model_names() + " ...")
                 ->default_str("all of them on CUDA, if there are no --shapes"));
  of_grouped(add_count(command, "--groups", options.groups, "of --shapes"));
  of_grouped(add_counts(command, "--rows", options.rows, "8 16 32 64 128 512 on CUDA, 8 on the CPU",
                        "of a group on average"));
  of_grouped(add_choices(command, "--routing", group_routing_names, options.routings,
                         "which group a row is in; uniform: as many in each; zipf: the n-th most popular one "
                         "in proportion to 1/n; skewed: in proportion to squares of random numbers")
                 ->default_str("uniform"));
  of_grouped(add_seed(command, options.seed, "of --routing"));
}

}  // namespace

void declare_bench_gemm(CLI::App& bench, arguments& chosen) {
  bench_gemm_options& options = chosen.bench_gemm;
  CLI::App& command =
      *bench.add_subcommand("gemm", "matrix products, dense with cuBLAS's beside them, or grouped");
  CLI::Option* const grouped = declare_points(command, options);
  declare_dense(command, options, grouped);
  declare_grouped(command, options.grouped, grouped);
  declare_measuring(command, options, chosen.is_json,
                    "bursts of each product: 15 ms of runs after 150 ms of rest");
  command.footer(
      "Every product is checked before it is timed, with integers; then operands are random. On CUDA the "
      "rate of tensor cores alone and of a copy are measured first: no product takes less than its share of "
      "either (the roofline). bench/grouped_peers.py measures torch._grouped_mm at the points of a "
      "--json-file.\n"
      "Examples:\n"
      "  baton bench gemm --shapes 8192 4096,14336,4096 --out bf16 fp32 --json-file gemm.jsonl\n"
      "  baton bench gemm --shapes 8192 --format bf16 e4m3\n"
      "  baton bench gemm --grouped --models deepseek-v3 --rows 64 512 --routing uniform skewed\n"
      "  baton bench gemm --grouped --shapes 4096,7168 --groups 32 --rows 128 --format bf16 e4m3");
  command.callback([&] { chosen.command = [&](std::ostream& out) { return run_bench_gemm(options, out); }; });
}

}  // namespace baton::cli
