#include "cli/commands/arguments.hpp"

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "baton/version.hpp"
#include "cli/commands/argument_kinds.hpp"
#include "cli/commands/bench_arguments.hpp"
#include "cli/commands/exchange_arguments.hpp"
#include "cli/commands/forecast_arguments.hpp"
#include "cli/commands/help_format.hpp"

namespace baton::cli {
namespace {

const std::map<std::string, backend_choice> backend_names{{"exchange", backend_choice::exchange},
                                                          {"reference", backend_choice::reference}};
const std::map<std::string, attention_choice> attention_names{{"auto", attention_choice::automatic},
                                                              {"host", attention_choice::host},
                                                              {"library", attention_choice::library}};

/// What is wrong with a count, or nothing.
template <class Number>
std::string positive(const std::string& word) {
  Number value = 0;
  if (CLI::detail::lexical_cast(word, value) && value > 0) return {};
  return word + " is not a number above 0";
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
  add_choice<attention_choice>(
      command, "--attention", attention_names,
      [&options](attention_choice attention) { options.attention = attention; },
      "who makes attention; host: loops in fp32, library: in bf16 on the ranks' devices")
      ->default_str("the library on GPUs, else the host")
      ->group("Exchange");
  declare_json(command, options.json, chosen.is_json);
  command.footer(
      "Prompt i runs on rank i modulo N. Decoding is greedy; the model's vocabulary must be the 256 bytes. "
      "The first text is shown as it is made, and load, bytes and times at the end. Weights in FP8 (baton "
      "quantize) are multiplied in FP8.\n"
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

void declare_quantize(CLI::App& app, arguments& chosen) {
  quantize_options& options = chosen.quantize;
  CLI::App& command = *app.add_subcommand("quantize", "write a model with its experts' weights in FP8");
  add_path(command, "--model", options.model, "folder with config.json and *.safetensors, bf16 or f32")
      ->required()
      ->type_name("DIR")
      ->group("Model");
  add_path(command, "--output", options.output, "gets the checkpoint; an empty folder, or none yet")
      ->required()
      ->type_name("DIR")
      ->group("Model");
  declare_json(command, options.json, chosen.is_json);
  command.footer(
      "The layout is that of Hugging Face's DeepSeek-V3: e4m3 values, and for each NAME.weight an f32 "
      "NAME.weight_scale_inv with a scale for each block of 128x128. Attention, routers, norms, embeddings "
      "and "
      "the head stay as they are. Files appear when all are written, config.json last; what else is in the "
      "folder, such as a tokenizer, is not copied.\n"
      "Example:\n"
      "  baton quantize --model data/tiny-moe --output tiny-moe-fp8");
  command.callback([&] { chosen.command = [&](std::ostream& out) { return run_quantize(options, out); }; });
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
      ->check(CLI::Validator{whole_number_of_64_bits, ""})
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
  declare_quantize(app, chosen);
  declare_doctor(app, chosen);
  declare_bench(app, chosen);
  declare_forecast(app, chosen);
  declare_check(app, chosen);
  declare_version(app, chosen);
}

}  // namespace baton::cli
