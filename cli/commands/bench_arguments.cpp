#include "cli/commands/bench_arguments.hpp"

#include <map>
#include <string>
#include <vector>

#include "cli/commands/argument_kinds.hpp"
#include "cli/commands/bench_attention_arguments.hpp"
#include "cli/commands/bench_gemm_arguments.hpp"
#include "cli/commands/bench_moe_arguments.hpp"
#include "cli/commands/exchange_arguments.hpp"

namespace baton::cli {
namespace {

const std::map<std::string, ring_strategy> strategy_names{
    {"single_counter", ring_strategy::single_counter},
    {"split_counter", ring_strategy::split_counter},
    {"per_reader_flags", ring_strategy::per_reader_flags},
    {"mbarrier", ring_strategy::mbarrier}};
const std::map<std::string, ring_gemm_tiles> tiles_names{{"automatic", ring_gemm_tiles::automatic},
                                                         {"small", ring_gemm_tiles::small},
                                                         {"large", ring_gemm_tiles::large}};

void declare_bench_sizes(CLI::App& command, bench_ep_options& options) {
  const auto listed = [&command](const char* flag, std::vector<int>& values, const char* usual,
                                 const char* text) {
    add_counts(command, flag, values, usual, text)->group("Sizes");
  };
  add_count(command, "--ranks", options.ranks, "ranks")->group("Sizes");
  listed("--hidden", options.hidden, "7168", "values in a token");
  listed("--top-k", options.top_k, "8", "experts of a token");
  listed("--experts", options.experts, "256", "experts of all ranks");
  listed("--tokens", options.tokens, "1 8 32 128 512 4096 on CUDA, 16 on the CPU",
         "tokens of each rank; repeat for more");
  add_choices(command, "--format", format_names, options.formats, "token formats to measure")
      ->default_str("bf16 fp8")
      ->group("Sizes");
  declare_combine_format(command, options.combine_format)->group("Sizes");
}

/// Who goes where.
void declare_bench_routing(CLI::App& command, bench_ep_options& options) {
  add_choices(command, "--routing", routing_names, options.routings,
              "which experts tokens choose; zipf: the n-th most popular one in proportion to 1/n; trace: "
              "what a model's "
              "routers chose; all-to-one: only those of rank 0")
      ->default_str("uniform")
      ->group("Routing");
  add_path(command, "--trace", options.trace,
           "of --routing trace: layers.L.topk_ids and layers.L.topk_weights; --experts and --top-k as "
           "recorded")
      ->type_name("FILE")
      ->group("Routing");
  add_counts(command, "--replicas", options.replicas, "0",
             "further copies of busy experts, placed by past routing")
      ->group("Routing");
}

void declare_bench_ring_points(CLI::App& command, bench_ring_options& options) {
  add_choices(command, "--strategy", strategy_names, options.strategies, "how slots are handed over")
      ->default_str("all of them")
      ->group("Points");
  const auto listed = [&command](const char* flag, std::vector<int>& values, const char* usual,
                                 const char* text) {
    add_counts(command, flag, values, usual, text)->group("Points");
  };
  listed("--readers", options.readers, "1 2 4 8", "warps that read each slot: 1, 2, 4 or 8");
  listed("--stages", options.stages, "1 2 4 8", "slots of the ring: 1, 2, 4 or 8");
  listed("--sizes", options.sizes, "1024 2048 4096 8192 on CUDA, 128 on the CPU",
         "m = n = k of the products");
  add_choice<ring_gemm_tiles>(
      command, "--tiles", tiles_names, [&options](ring_gemm_tiles tiles) { options.tiles = tiles; },
      "of the products")
      ->default_str("automatic")
      ->group("Points");
}

void declare_bench_ring(CLI::App& bench, arguments& chosen) {
  bench_ring_options& options = chosen.bench_ring;
  CLI::App& command =
      *bench.add_subcommand("ring", "hand-offs through ring buffers, and matrix products over them");
  declare_bench_ring_points(command, options);
  declare_device_or_none(command, options.device);
  add_count(command, "--hand-offs", options.hand_offs, "hand-offs timed together")->group("Measuring");
  add_count(command, "--repeats", options.repeats, "timed runs of each point")->group("Measuring");
  declare_json(command, options.json, chosen.is_json);
  declare_json_file(command, options.json_path);
  command.footer(
      "Every product is checked before it is timed; JSON is one object a line, drawn by tools/plot_ring.py.\n"
      "Example:\n"
      "  baton bench ring --readers 1 4 8 --stages 2 4 --json-file ring.jsonl");
  command.callback([&] { chosen.command = [&](std::ostream& out) { return run_bench_ring(options, out); }; });
}

void declare_bench_silu(CLI::App& bench, arguments& chosen) {
  bench_silu_options& options = chosen.bench_silu;
  CLI::App& command =
      *bench.add_subcommand("silu", "the activation between an expert's products, in each format");
  add_choices(command, "--format", format_names, options.formats, "formats to write")
      ->default_str("all of them")
      ->group("Sizes");
  add_counts(command, "--rows", options.rows, "1024 16384 on CUDA, 64 on the CPU",
             "rows of all experts; repeat for more")
      ->group("Sizes");
  add_count(command, "--columns", options.columns, "intermediate values of a row")->group("Sizes");
  add_count(command, "--repeats", options.repeats, "timed runs of each point")->group("Measuring");
  declare_device_or_none(command, options.device);
  declare_json(command, options.json, chosen.is_json);
  declare_json_file(command, options.json_path);
  command.footer(
      "Every result is checked before it is timed, and a copy of as many bytes is timed beside it.\n"
      "Example:\n"
      "  baton bench silu --rows 16384 --columns 2048 --format nvfp4");
  command.callback([&] { chosen.command = [&](std::ostream& out) { return run_bench_silu(options, out); }; });
}

void declare_bench_compare(CLI::App& bench, arguments& chosen) {
  bench_compare_options& options = chosen.bench_compare;
  CLI::App& command =
      *bench.add_subcommand("compare", "which times of two runs of `ep` differ by more than they vary");
  add_path(command, "OLD", options.before, "what bench ep --json-file wrote")->required()->type_name("FILE");
  add_path(command, "NEW", options.after, "the same, of another run")->required()->type_name("FILE");
  declare_json(command, options.json, chosen.is_json);
  command.footer(
      "A time changed if its medians differ by more than three standard deviations of a sample, and by 1 %. "
      "Several runs in one file count as one. Exit code 1 if a time became longer.\n"
      "Example:\n"
      "  baton bench compare old.jsonl new.jsonl");
  command.callback(
      [&] { chosen.command = [&](std::ostream& out) { return run_bench_compare(options, out); }; });
}

void declare_bench_ep(CLI::App& bench, arguments& chosen) {
  bench_ep_options& options = chosen.bench;
  CLI::App& command = *bench.add_subcommand(
      "ep", "the exchange, call by call and as a whole, its limits, and NCCL beside it");
  declare_bench_sizes(command, options);
  declare_bench_routing(command, options);
  declare_device_or_none(command, options.device);
  add_choices(command, "--layout", layout_names, options.layouts,
              "layouts to measure, where they serve so many tokens")
      ->default_str("per_expert per_rank")
      ->group("Exchange");
  declare_travel(command, options);
  add_counts(command, "--sms", options.num_sms, "0", "blocks of every kernel; 0: all SMs")->group("Exchange");
  add_count(command, "--threads", options.num_threads, "threads of a block; 0: the library's choice")
      ->group("Exchange");
  command.add_flag("--quantised", options.forms.quantised, "give tokens in their format, if it has scales")
      ->group("Exchange");
  command.add_flag("--wide-ids", options.forms.wide_ids, "give ids as int64")->group("Exchange");
  command
      .add_flag("--shared-output", options.forms.shared_output,
                "combine adds what shared experts made of each token")
      ->group("Exchange");
  add_count(command, "--repeats", options.repeats, "samples of each time")->group("Measuring");
  command.add_option("--rounds", options.rounds, "rounds timed together for a sample")
      ->type_name("N")
      ->default_str("4 to 40 on CUDA, 1 on the CPU")
      ->group("Measuring");
  add_seed(command, options.seed, "of tokens and routing")->group("Measuring");
  declare_json(command, options.json, chosen.is_json);
  declare_json_file(command, options.json_path);
  command.footer(
      "Every combination is a point, which is checked before it is timed; JSON is one object a line, drawn "
      "by "
      "tools/plot_ep.py; bench/exchange_peers.py measures FlashInfer's all-to-all at the points of "
      "--json-file.\n"
      "Examples:\n"
      "  baton bench ep --ranks 2 --tokens 1 8 128 --layout per_rank --json-file ep.jsonl\n"
      "  baton bench ep --tokens 4096 --sms 4 8 16 24 32 64 132 --json-file sms.jsonl\n"
      "  baton bench ep --routing uniform zipf --replicas 0 32 --tokens 128 4096\n"
      "  baton bench ep --routing trace --trace data/tiny-moe/routing.safetensors --experts 64");
  command.callback([&] { chosen.command = [&](std::ostream& out) { return run_bench_ep(options, out); }; });
}

void declare_bench_groups(CLI::App& bench, arguments& chosen) {
  bench_groups_options& options = chosen.bench_groups;
  CLI::App& command = *bench.add_subcommand(
      "groups", "ranks that stores reach beside ranks beyond the p2p group, a process each");
  add_counts(command, "--group-size", options.group_sizes, "all ranks, up to 8, then 1",
             "ranks of a p2p group; 0: all, of up to 8")
      ->group("Sizes");
  add_counts(command, "--tokens", options.tokens, "1 8 128 on CUDA, 4 on the CPU", "tokens of each rank")
      ->group("Sizes");
  add_count(command, "--hidden", options.hidden, "values in a token")->group("Sizes");
  add_count(command, "--top-k", options.top_k, "experts of a token")->group("Sizes");
  add_count(command, "--experts", options.experts, "experts of all ranks")->group("Sizes");
  add_choice<ep_layout>(
      command, "--layout", layout_names, [&](ep_layout layout) { options.layout = layout; },
      "a message for each token and expert, or for each token and rank")
      ->default_str("per_expert")
      ->group("Exchange");
  add_choices(
      command, "--levels", level_names, options.levels,
      "how a token comes to other groups; one: put to each rank; two, of layout per_rank: put once, and "
      "forwarded there")
      ->default_str("one")
      ->group("Exchange");
  add_choice<ep_transfer>(
      command, "--transfer", transfer_names, [&](ep_transfer how) { options.transfer = how; },
      "how tokens of layout per_rank travel; only chunks go beyond a group, and auto means them there")
      ->default_str("auto")
      ->group("Exchange");
  add_count(command, "--repeats", options.repeats, "samples of each time")->group("Measuring");
  add_count(command, "--rounds", options.rounds, "rounds timed together for a sample")->group("Measuring");
  add_seed(command, options.seed, "of tokens and routing")->group("Measuring");
  declare_device_or_none(command, options.device);
  declare_json(command, options.json, chosen.is_json);
  declare_json_file(command, options.json_path);
  command.footer(
      "Start one for each rank, by what sets RANK, WORLD_SIZE and MASTER_PORT; rank 0 tells. Every round is "
      "checked before it is timed. On CUDA, groups smaller than the ranks need NVSHMEM, whose own all-to-all "
      "is timed beside them.\n"
      "Example:\n"
      "  torchrun --no-python --nproc-per-node 2 baton bench groups --tokens 1 128 --json-file groups.jsonl\n"
      "  torchrun --no-python --nproc-per-node 4 baton bench groups --layout per_rank --group-size 4 2 1\n"
      "  torchrun --no-python --nproc-per-node 4 baton bench groups --layout per_rank --group-size 2 "
      "--levels "
      "one two");
  command.callback(
      [&] { chosen.command = [&](std::ostream& out) { return run_bench_groups(options, out); }; });
}

}  // namespace

void declare_bench(CLI::App& app, arguments& chosen) {
  CLI::App& bench = *app.add_subcommand(
      "bench",
      "measure speed: `ep` the exchange, `moe` layers of experts, `gemm` matrix products, `attention` "
      "prefill, `ring` ring buffers, `silu` activations, `groups` ranks beyond the p2p group; `compare` "
      "runs");
  bench.require_subcommand(1);
  declare_bench_ring(bench, chosen);
  declare_bench_gemm(bench, chosen);
  declare_bench_attention(bench, chosen);
  declare_bench_moe(bench, chosen);
  declare_bench_silu(bench, chosen);
  declare_bench_compare(bench, chosen);
  declare_bench_groups(bench, chosen);
  declare_bench_ep(bench, chosen);
  bench.footer("Example:\n  baton bench ep --ranks 4 --tokens 128 --tokens 4096");
}

}  // namespace baton::cli
