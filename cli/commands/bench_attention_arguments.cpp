#include "cli/commands/bench_attention_arguments.hpp"

#include <map>
#include <string>

#include "cli/commands/argument_kinds.hpp"

namespace baton::cli {
namespace {

const std::map<std::string, attention_mask> mask_names{
    {name(attention_mask::dense), attention_mask::dense},
    {name(attention_mask::causal), attention_mask::causal},
    {name(attention_mask::window), attention_mask::window}};
const std::map<std::string, operand_format> attention_format_names{
    {name(operand_format::bf16), operand_format::bf16}, {name(operand_format::fp16), operand_format::fp16}};
const std::map<std::string, cache_format> cache_format_names{{name(cache_format::same), cache_format::same},
                                                             {name(cache_format::e4m3), cache_format::e4m3}};

void declare_attention_points(CLI::App& command, bench_attention_options& options) {
  command.add_option("--models", options.models, "whose layers: heads, and windows where they have them")
      ->type_name(attention_model_names() + " ...")
      ->group("Points");
  command.add_option("--heads", options.heads, "heads of q, of k and v, and values of each")
      ->type_name("H,K,D ...")
      ->default_str("16,16,512 16,16,256 on CUDA, 4,2,64 on the CPU, if there are no --models")
      ->group("Points");
  add_counts(command, "--lengths", options.lengths, "1024 2048 4096 8192 16384 32768 on CUDA, 128 on the CPU",
             "rows, and keys, of a sequence")
      ->group("Points");
  add_count(command, "--batch", options.batch, "sequences")->group("Points");
  add_choices(command, "--mask", mask_names, options.masks, "which keys a row sees")
      ->default_str("window for layers that have one, dense causal for others")
      ->group("Points");
  add_count(command, "--window", options.window, "keys of --mask window, where no model says")
      ->group("Points");
  add_choices(command, "--format", attention_format_names, options.formats,
              "of q and the result, and of k and v but for --cache")
      ->default_str("bf16")
      ->group("Points");
  command
      .add_flag("--decode", options.decode, "few rows a sequence over keys in pages: --lengths are of keys")
      ->group("Points");
  add_count(command, "--rows", options.rows, "of each sequence, its last ones, with --decode")
      ->group("Points");
  add_count(command, "--page-size", options.page_size, "keys of a page, with --decode")->group("Points");
  add_choices(command, "--cache", cache_format_names, options.caches,
              "what keys and values in pages are of, with --decode; same: as q")
      ->default_str("same")
      ->group("Points");
  add_count(command, "--sms", options.num_sms, "SMs that work at most; 0: all")->group("Points");
}

}  // namespace

void declare_bench_attention(CLI::App& bench, arguments& chosen) {
  bench_attention_options& options = chosen.bench_attention;
  CLI::App& command =
      *bench.add_subcommand("attention", "attention of wide heads, beside a product of cuBLAS or a copy");
  declare_attention_points(command, options);
  declare_measuring(command, options, chosen.is_json, "bursts of each: five calls after 0.4 s of rest");
  command.footer(
      "Rows of every result are compared with double precision before it is timed. Operations are 4 B H D "
      "for "
      "each pair of a row and a key that it sees: S^2 of them, S (S + 1) / 2 where causal. On CUDA cuBLAS's "
      "bf16 product of 8192^3 is measured first in the same ways. With --decode rates are of the bytes of "
      "keys "
      "and values that are seen, and each call has another cache than the one before.\n"
      "Examples:\n"
      "  baton bench attention --heads 16,16,512 --lengths 16384 --json-file attention.jsonl\n"
      "  baton bench attention --models gemma-4-31b --lengths 8192\n"
      "  baton bench attention --decode --heads 32,4,512 --batch 8 --lengths 1024 8192 32768 --cache same "
      "e4m3");
  command.callback(
      [&] { chosen.command = [&](std::ostream& out) { return run_bench_attention(options, out); }; });
}

}  // namespace baton::cli
