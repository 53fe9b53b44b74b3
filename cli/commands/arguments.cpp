#include "cli/commands/arguments.hpp"

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "baton/version.hpp"
#include "cli/commands/argument_kinds.hpp"
#include "cli/commands/help_format.hpp"

namespace baton::cli {
namespace {

const std::map<std::string, token_format> format_names{{"bf16", token_format::bf16},
                                                       {"fp8", token_format::blockwise_fp8},
                                                       {"mxfp8", token_format::mxfp8},
                                                       {"mxfp4", token_format::mxfp4},
                                                       {"nvfp4", token_format::nvfp4}};
const std::map<std::string, arrival_policy> arrival_names{{"epoch", arrival_policy::epoch},
                                                          {"sentinel", arrival_policy::sentinel}};
const std::map<std::string, ep_layout> layout_names{{"per_expert", ep_layout::per_expert},
                                                    {"per_rank", ep_layout::per_rank}};
const std::map<std::string, ep_transfer> transfer_names{
    {"auto", ep_transfer::automatic}, {"lines", ep_transfer::lines}, {"chunks", ep_transfer::chunks}};
const std::map<std::string, ep_rows> rows_names{{"expert", ep_rows::by_expert}, {"token", ep_rows::by_token}};
const std::map<std::string, ring_strategy> strategy_names{
    {"single_counter", ring_strategy::single_counter},
    {"split_counter", ring_strategy::split_counter},
    {"per_reader_flags", ring_strategy::per_reader_flags},
    {"mbarrier", ring_strategy::mbarrier}};
const std::map<std::string, ring_gemm_tiles> tiles_names{{"automatic", ring_gemm_tiles::automatic},
                                                         {"small", ring_gemm_tiles::small},
                                                         {"large", ring_gemm_tiles::large}};
const std::map<std::string, gemm_tiles> gemm_tiles_names{{"automatic", gemm_tiles::automatic},
                                                         {"paired", gemm_tiles::paired},
                                                         {"wide", gemm_tiles::wide},
                                                         {"medium", gemm_tiles::medium},
                                                         {"narrow", gemm_tiles::narrow}};
const std::map<std::string, backend_choice> backend_names{{"exchange", backend_choice::exchange},
                                                          {"reference", backend_choice::reference}};

/// What is wrong with a count, or nothing.
template <class Number>
std::string positive(const std::string& word) {
  Number value = 0;
  if (CLI::detail::lexical_cast(word, value) && value > 0) return {};
  return word + " is not a number above 0";
}

/// How tokens travel, and how they lie when they are there.
template <class Settings>
void declare_travel(CLI::App& command, Settings& settings) {
  add_choice<ep_transfer>(
      command, "--transfer", transfer_names, [&settings](ep_transfer how) { settings.transfer = how; },
      "how tokens of layout per_rank travel: lines for few, chunks for many")
      ->default_str("auto")
      ->group("Exchange");
  add_choice<ep_rows>(
      command, "--rows", rows_names, [&settings](ep_rows how) { settings.rows = how; },
      "how received tokens lie: once for each of their experts, or once (layout per_rank)")
      ->default_str("expert")
      ->group("Exchange");
}

void declare_exchange(CLI::App& command, exchange_settings& settings) {
  command.add_option("--ranks", settings.num_ranks, "ranks that the experts are spread over")
      ->type_name("N")
      ->capture_default_str()
      ->group("Exchange");
  declare_device(command, [&settings](device_choice device) { settings.device = device; });
  add_choice<token_format>(
      command, "--format", format_names, [&settings](token_format format) { settings.format = format; },
      "how tokens travel; fp8: e4m3 with a scale for each 128 values. mxfp8, mxfp4, nvfp4: layout "
      "per_expert, and experts on the CPU")
      ->default_str("bf16")
      ->group("Exchange");
  add_choice<arrival_policy>(
      command, "--arrival", arrival_names,
      [&settings](arrival_policy arrival) { settings.arrival = arrival; },
      "how arrival words tell rounds apart; layout per_rank has none")
      ->default_str("epoch")
      ->group("Exchange");
  add_choice<ep_layout>(
      command, "--layout", layout_names, [&settings](ep_layout layout) { settings.layout = layout; },
      "a message for each token and expert, or for each token and rank")
      ->default_str("per_expert")
      ->group("Exchange");
  declare_travel(command, settings);
  command
      .add_option("--max-tokens-per-rank", settings.max_tokens_per_rank,
                  "tokens that a rank sends in a round; sizes the buffers")
      ->type_name("N")
      ->capture_default_str()
      ->group("Exchange");
}

void declare_generate(CLI::App& app, arguments& chosen) {
  generate_options& options = chosen.generate;
  CLI::App& command =
      *app.add_subcommand("generate", "continue text with a qwen3_moe model, experts spread over ranks");
  add_path(command, "--model", options.model, "folder with config.json and *.safetensors")
      ->required()
      ->type_name("DIR")
      ->group("Model and text");
  command.add_option("--prompt", options.prompts, "text to continue; repeat for more")
      ->type_name("TEXT")
      ->expected(1)
      ->take_all()
      ->group("Model and text");
  add_path(command, "--prompts-file", options.prompts_file, "a prompt a line, or a JSON array of strings")
      ->type_name("FILE")
      ->group("Model and text");
  add_path(command, "--expect", options.expect,
           "JSON array of {prompt, greedy_continuation}; says if texts are as expected")
      ->type_name("FILE")
      ->group("Model and text");
  command.add_option("--max-new", options.max_new, "tokens to add to each prompt")
      ->type_name("N")
      ->default_str("as many as are expected, else 64")
      ->check(CLI::Validator{positive<int>, ""})
      ->group("Model and text");
  declare_exchange(command, options.exchange);
  add_choice<backend_choice>(
      command, "--backend", backend_names, [&options](backend_choice backend) { options.backend = backend; },
      "who runs the experts; reference: double precision, no exchange")
      ->default_str("exchange")
      ->group("Exchange");
  declare_json(command, options.json, chosen.is_json);
  command.footer(
      "Prompt i runs on rank i modulo N. Decoding is greedy; the model's vocabulary must be the 256 bytes. "
      "The first text is shown as it is made, and load, bytes and times at the end.\n"
      "Examples:\n"
      "  baton generate --model data/tiny-moe --prompt 'def __init__(self' --ranks 4\n"
      "  baton generate --model data/tiny-moe --expect data/tiny-moe/greedy.json --json");
  command.callback([&] { chosen.command = [&](std::ostream& out) { return run_generate(options, out); }; });
}

void declare_moe(CLI::App& app, arguments& chosen) {
  moe_options& options = chosen.moe;
  CLI::App& command = *app.add_subcommand("moe", "run one MoE layer of a model on given hidden states");
  const auto required = [&](const char* flag, std::filesystem::path& path, const char* type,
                            const char* text) {
    add_path(command, flag, path, text)->required()->type_name(type)->group("Model and data");
  };
  required("--model", options.model, "DIR", "folder with config.json and *.safetensors");
  command.add_option("--layer", options.layer, "which layer, from 0")
      ->required()
      ->type_name("L")
      ->group("Model and data");
  required("--input", options.input, "X.safetensors", "has hidden_states [tokens, hidden], bf16 or f32");
  required("--output", options.output, "Y.safetensors", "gets hidden_states [tokens, hidden], f32");
  declare_exchange(command, options.exchange);
  declare_json(command, options.json, chosen.is_json);
  command.footer(
      "Tokens are spread over the ranks in contiguous blocks. If X has moe_output (f32, same shape), the "
      "error "
      "against it is reported, and exit code 1 says that rounding does not explain it.\n"
      "Example:\n"
      "  baton moe --model data/tiny-moe --layer 1 --input x.safetensors \\\n"
      "            --output y.safetensors --ranks 8");
  command.callback([&] { chosen.command = [&](std::ostream& out) { return run_moe(options, out); }; });
}

void declare_doctor(CLI::App& app, arguments& chosen) {
  doctor_options& options = chosen.doctor;
  CLI::App& command =
      *app.add_subcommand("doctor", "what this machine has, what baton will do on it, and what to fix");
  command.add_flag("--quick", options.quick, "no measurements");
  declare_json(command, options.json, chosen.is_json);
  command.footer("Exit code 1 if a check fails.");
  command.callback([&] { chosen.command = [&](std::ostream& out) { return run_doctor(options, out); }; });
}

void declare_bench_sizes(CLI::App& command, bench_ep_options& options) {
  const auto sized = [&command](const char* flag, int& value, const char* text) {
    command.add_option(flag, value, text)->type_name("N")->capture_default_str()->group("Sizes");
  };
  sized("--ranks", options.ranks, "ranks");
  sized("--hidden", options.hidden, "values in a token");
  sized("--top-k", options.top_k, "experts of a token");
  sized("--experts", options.experts, "experts of all ranks");
  command.add_option("--tokens", options.tokens, "tokens of each rank; repeat for more")
      ->type_name("N ...")
      ->default_str("1 8 32 128 512 4096 on CUDA, 16 on the CPU")
      ->group("Sizes");
  add_choices(command, "--format", format_names, options.formats, "token formats to measure")
      ->default_str("bf16 fp8")
      ->group("Sizes");
}

void declare_bench_ring_points(CLI::App& command, bench_ring_options& options) {
  add_choices(command, "--strategy", strategy_names, options.strategies, "how slots are handed over")
      ->default_str("all of them")
      ->group("Points");
  const auto listed = [&command](const char* flag, std::vector<int>& values, const char* text,
                                 const char* usual) {
    command.add_option(flag, values, text)->type_name("N ...")->default_str(usual)->group("Points");
  };
  listed("--readers", options.readers, "warps that read each slot", "1 2 ... 8");
  listed("--stages", options.stages, "slots of the ring", "1 2 ... 8");
  listed("--sizes", options.sizes, "m = n = k of the products",
         "1024 2048 4096 8192 on CUDA, 128 on the CPU");
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
  const auto counted = [&command](const char* flag, int& value, const char* text) {
    command.add_option(flag, value, text)->type_name("N")->capture_default_str()->group("Measuring");
  };
  counted("--hand-offs", options.hand_offs, "hand-offs timed together");
  counted("--repeats", options.repeats, "timed runs of each point");
  declare_json(command, options.json, chosen.is_json);
  declare_json_file(command, options.json_path);
  command.footer(
      "Every product is checked before it is timed; JSON is one object a line, drawn by tools/plot_ring.py.\n"
      "Example:\n"
      "  baton bench ring --readers 1 4 8 --stages 2 4 --json-file ring.jsonl");
  command.callback([&] { chosen.command = [&](std::ostream& out) { return run_bench_ring(options, out); }; });
}

void declare_bench_gemm(CLI::App& bench, arguments& chosen) {
  bench_gemm_options& options = chosen.bench_gemm;
  CLI::App& command = *bench.add_subcommand("gemm", "matrix products, and cuBLAS's beside them");
  command.add_option("--shapes", options.shapes, "of the products: M,N,K, or one size for all three")
      ->type_name("M,N,K ...")
      ->default_str("8192 4096 2048 1024 and three others on CUDA, 128 on the CPU")
      ->group("Points");
  command.add_option("--out", options.out, "types of the result")
      ->check(CLI::IsMember{{"bf16", "fp32"}})
      ->type_name("{bf16,fp32} ...")
      ->default_str("bf16")
      ->group("Points");
  add_choices(command, "--tiles", gemm_tiles_names, options.tiles, "of baton's product, side by side")
      ->default_str("automatic")
      ->group("Points");
  const auto counted = [&command](const char* flag, int& value, const char* text, const char* group) {
    command.add_option(flag, value, text)->type_name("N")->capture_default_str()->group(group);
  };
  counted("--sms", options.num_sms, "blocks of baton's product at most; 0: all SMs", "Points");
  counted("--repeats", options.repeats, "bursts of each product: 15 ms of runs after 150 ms of rest",
          "Measuring");
  counted("--sustained-ms", options.sustained_ms,
          "runs without a pause, after as many that are not timed; 0: none. CUDA only", "Measuring");
  declare_device_or_none(command, options.device);
  declare_json(command, options.json, chosen.is_json);
  declare_json_file(command, options.json_path);
  command.footer(
      "Every product is checked before it is timed, with integers; then operands are random. On CUDA the "
      "rate of tensor\n"
      "cores alone and of a copy are measured first: no product takes less than its share of either (the "
      "roofline).\n"
      "Example:\n"
      "  baton bench gemm --shapes 8192 4096,14336,4096 --out bf16 fp32 --json-file gemm.jsonl");
  command.callback([&] { chosen.command = [&](std::ostream& out) { return run_bench_gemm(options, out); }; });
}

void declare_bench_silu(CLI::App& bench, arguments& chosen) {
  bench_silu_options& options = chosen.bench_silu;
  CLI::App& command =
      *bench.add_subcommand("silu", "the activation between an expert's products, in each format");
  add_choices(command, "--format", format_names, options.formats, "formats to write")
      ->default_str("all of them")
      ->group("Sizes");
  command.add_option("--rows", options.rows, "rows of all experts; repeat for more")
      ->type_name("N ...")
      ->default_str("1024 16384 on CUDA, 64 on the CPU")
      ->group("Sizes");
  const auto counted = [&command](const char* flag, int& value, const char* text, const char* group) {
    command.add_option(flag, value, text)->type_name("N")->capture_default_str()->group(group);
  };
  counted("--columns", options.columns, "intermediate values of a row", "Sizes");
  counted("--repeats", options.repeats, "timed runs of each point", "Measuring");
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

void declare_bench(CLI::App& app, arguments& chosen) {
  bench_ep_options& options = chosen.bench;
  CLI::App& bench = *app.add_subcommand("bench",
                                        "measure speed: `ep` the exchange, `gemm` matrix products, `ring` "
                                        "ring buffers, `silu` activations; `compare` "
                                        "runs");
  bench.require_subcommand(1);
  declare_bench_ring(bench, chosen);
  declare_bench_gemm(bench, chosen);
  declare_bench_silu(bench, chosen);
  declare_bench_compare(bench, chosen);
  bench.footer("Example:\n  baton bench ep --ranks 4 --tokens 128 --tokens 4096");
  CLI::App& command = *bench.add_subcommand(
      "ep", "the exchange, call by call and as a whole, its limits, and NCCL beside it");
  declare_bench_sizes(command, options);
  declare_device_or_none(command, options.device);
  add_choices(command, "--layout", layout_names, options.layouts,
              "layouts to measure, where they serve so many tokens")
      ->default_str("per_expert per_rank")
      ->group("Exchange");
  declare_travel(command, options);
  command.add_option("--sms", options.num_sms, "blocks of every kernel; 0: all SMs")
      ->type_name("N ...")
      ->default_str("0")
      ->group("Exchange");
  const auto counted = [&command](const char* flag, auto& value, const char* text, const char* group) {
    command.add_option(flag, value, text)->type_name("N")->capture_default_str()->group(group);
  };
  counted("--threads", options.num_threads, "threads of a block; 0: the library's choice", "Exchange");
  command.add_flag("--quantised", options.forms.quantised, "give tokens in their format, if it has scales")
      ->group("Exchange");
  command.add_flag("--wide-ids", options.forms.wide_ids, "give ids as int64")->group("Exchange");
  counted("--repeats", options.repeats, "samples of each time", "Measuring");
  command.add_option("--rounds", options.rounds, "rounds timed together for a sample")
      ->type_name("N")
      ->default_str("4 to 40 on CUDA, 1 on the CPU")
      ->group("Measuring");
  counted("--seed", options.seed, "of tokens and routing", "Measuring");
  declare_json(command, options.json, chosen.is_json);
  declare_json_file(command, options.json_path);
  command.footer(
      "Every point is checked before it is timed; JSON is one object a line, drawn by tools/plot_ep.py.\n"
      "Example:\n"
      "  baton bench ep --ranks 2 --tokens 1 8 128 --layout per_rank --json-file ep.jsonl");
  command.callback([&] { chosen.command = [&](std::ostream& out) { return run_bench_ep(options, out); }; });
}

void declare_check(CLI::App& app, arguments& chosen) {
  check_options& options = chosen.check;
  CLI::App& command = *app.add_subcommand(
      "check", "explore every schedule of the protocols, and find the bugs planted into them");
  command.add_option("--protocol", options.protocols, "this one only; repeat for more")
      ->type_name("NAME")
      ->expected(1)
      ->take_all()
      ->default_str("all of them")
      ->group("What");
  command.add_flag("--list", options.list, "say what there is, and run nothing")->group("What");
  command.add_option("--bound", options.bound, "at most N executions of an exploration")
      ->type_name("N")
      ->check(CLI::Validator{positive<int>, ""})
      ->default_str("each its own")
      ->group("How far");
  command.add_option("--seconds", options.seconds, "at most S seconds of an exploration")
      ->type_name("S")
      ->check(CLI::Validator{positive<double>, ""})
      ->default_str("each its own")
      ->group("How far");
  command
      .add_option_function<std::uint64_t>(
          "--seed", [&options](std::uint64_t seed) { options.seed = seed; },
          "random schedules by this seed instead of all: N of them, or 10000")
      ->type_name("X")
      ->group("How far");
  command.add_option("--jobs", options.jobs, "explorations at a time; 0: one a core")
      ->type_name("N")
      ->capture_default_str()
      ->group("How far");
  command.add_flag("--mutants", options.mutants, "show each planted bug and how it was noticed")
      ->group("Output");
  command
      .add_flag("--trace", options.trace,
                "show schedules: of what is found, and one of each protocol that holds")
      ->group("Output");
  declare_json(command, options.json, chosen.is_json);
  command.footer(
      "Exit code 1 if something is found, if a planted bug is not noticed, or if an exploration is not "
      "finished "
      "within its own bound; not if your own --bound, --seconds or --seed leave it unfinished.\n"
      "Examples:\n"
      "  baton check --list\n"
      "  baton check --protocol gate --mutants --trace");
  command.callback([&] {
    chosen.command = [&](std::ostream& out) {
      return run_check(options, checks::all_protocol_checks(), out);
    };
  });
}

int run_version(bool json, std::ostream& out) {
  if (json) {
    out << nlohmann::json{{"version", version()}, {"build", build_info()}}.dump(2) << '\n';
  } else {
    out << build_info() << '\n';
  }
  return 0;
}

void declare_version(CLI::App& app, arguments& chosen) {
  CLI::App& command = *app.add_subcommand("version", "version, compiler, and the CUDA toolkit built in");
  declare_json(command, chosen.version_json, chosen.is_json);
  command.callback(
      [&] { chosen.command = [&](std::ostream& out) { return run_version(chosen.version_json, out); }; });
}

constexpr const char* footer = R"(`baton COMMAND --help` tells a command's options and shows examples.

Exit codes:
  0  all is well
  1  a check failed: another text than expected, an error above its bound,
     a doctor's FAIL, a protocol that does not hold
  2  bad usage, or a bad argument, model or input file; nothing was written
  3  a rank did not arrive before the deadline, or ranks could not meet
  4  no such device, or something that this device or build cannot do
  5  out of memory; the message says what was needed and what was free, and which
     option helps
  6  a fault of baton itself

Environment:
  BATON_DEVICE       default of --device: auto, cpu or cuda
  BATON_DEADLINE_MS  how long a rank waits for another before it reports who is
                     missing (30000; 0: forever)
  NO_COLOR           plain output even in a terminal

Example:
  baton generate --model data/tiny-moe --expect data/tiny-moe/greedy.json)";

}  // namespace

void declare(CLI::App& app, arguments& chosen) {
  const auto format = std::make_shared<help_format>();
  format->column_width(32);
  app.formatter(format);  // subcommands inherit it
  app.set_help_flag("-h,--help", "this text");
  app.description("baton: mixture-of-experts models, their experts spread over ranks.");
  app.footer(footer);
  app.require_subcommand(1);
  app.set_version_flag("--version", build_info(), "the same as the command version");
  declare_generate(app, chosen);
  declare_moe(app, chosen);
  declare_doctor(app, chosen);
  declare_bench(app, chosen);
  declare_check(app, chosen);
  declare_version(app, chosen);
}

}  // namespace baton::cli
