// The program baton as a child process: help, output for people and machines, files, exit codes, messages.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/view/text.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/command_lines.hpp"
#include "tests/support/parsed_json.hpp"

namespace baton::test {
namespace {

using nlohmann::json;

/// A file with the first tokens of layer `layer` of the fixtures: hidden_states and, if wanted, moe_output.
std::string layer_file(const temporary_folder& folder, int layer, bool with_output,
                       std::int64_t tokens = 1024) {
  const model::tensor_view &input = fixture(layer, "moe_input"), &output = fixture(layer, "moe_output");
  auto states = bytes_of(input), outputs = bytes_of(output);
  const model::tensor_shape shape{tokens, input.shape[1]};
  for (auto* bytes : {&states, &outputs})
    bytes->resize(bytes->size() / 1024 * static_cast<std::size_t>(tokens));
  std::vector<model::tensor_to_write> tensors{{"hidden_states", input.type, shape, states}};
  if (with_output) tensors.push_back({"moe_output", output.type, shape, outputs});
  const std::string path = (folder / "x.safetensors").string();
  model::write_safetensors(path, tensors);
  return path;
}

TEST(program, help_tells_commands_exit_codes_and_environment) {
  const child_result help = run_program({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_EQ(help.err, "");
  EXPECT_TRUE(says(help.out, "generate", "moe", "quantize", "doctor", "bench", "check", "version",
                   "Exit codes", "BATON_DEVICE", "BATON_DEADLINE_MS"));
  for (const words& command : {words{"generate"},
                               {"moe"},
                               {"quantize"},
                               {"doctor"},
                               {"bench"},
                               {"bench", "ep"},
                               {"bench", "gemm"},
                               {"bench", "attention"},
                               {"check"},
                               {"version"}}) {
    const child_result of_command = run_program(command + words{"--help"});
    EXPECT_EQ(of_command.exit_code, 0) << command.back();
    EXPECT_TRUE(says(of_command.out, "Usage: baton " + command[0]));
    std::istringstream lines{of_command.out};
    for (std::string line; std::getline(lines, line);) EXPECT_LE(cli::columns(line), 120u) << line;
  }
}

TEST(program, without_a_command_it_shows_its_help_and_fails) {
  const child_result nothing = run_program({});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_TRUE(says(nothing.err, "Usage: baton"));
}

TEST(program, version_is_told_for_people_and_machines) {
  EXPECT_TRUE(says(run_program({"version"}).out, "baton 0.1.0"));
  EXPECT_EQ(run_program({"--version"}).out, run_program({"version"}).out);
  EXPECT_EQ(parsed_json(run_program({"version", "--json"}).out)["version"], "0.1.0");
}

TEST(program, generate_says_whether_the_texts_are_expected) {
  const child_result run = run_program(generate + words{"--expect", greedy_file, "--ranks", "4"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.err, "");
  EXPECT_TRUE(says(run.out, "class TestCase(metaclass=ABCMeta)", "as expected (96 bytes)", "5 of 5", "rank 3",
                   "tokens/s", "between ranks", "dispatch", "combine"));
  EXPECT_EQ(run.out.find('\x1b'), std::string::npos) << "escape sequences outside a terminal";
}

TEST(program, generate_fails_when_a_text_differs) {
  const temporary_folder folder;
  write_file(folder / "e.json",
             R"([{"prompt": "import unittest\n\nclass TestCase(", "greedy_continuation": "metaklass"}])");
  const words command = generate + words{"--expect", (folder / "e.json").string()};
  const child_result run = run_program(command);
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_TRUE(says(run.out, "differs at byte 4", "expected \"klass\"", "found \"class\"", "0 of 1"));
  const child_result machine = run_program(command + words{"--json"});
  EXPECT_EQ(machine.exit_code, 1);
  EXPECT_EQ(parsed_json(machine.out)["sequences"][0]["is_expected"], false);
}

TEST(program, no_command_writes_a_line_wider_than_80_columns) {
  const words wide = generate + words{"--expect", greedy_file, "--ranks", "8", "--max-new", "1"};
  for (const words& command :
       {words{"--help"}, words{"generate", "--help"}, words{"moe", "--help"}, words{"quantize", "--help"},
        words{"doctor", "--help"}, words{"bench", "ep", "--help"}, words{"bench", "ring", "--help"},
        words{"bench", "compare", "--help"}, words{"check", "--help"}, words{"version"},
        words{"check", "--list"}, words{"check", "--protocol", "gate", "--bound", "1", "--trace"},
        words{"doctor", "--quick"}, wide,
        words{"bench", "ring", "--device", "cpu", "--sizes", "64", "--repeats", "1"},
        words{"bench", "ep", "--device", "cpu", "--ranks", "2", "--tokens", "1", "--repeats", "1"}}) {
    std::istringstream lines{run_program(command).out};
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE(cli::columns(line), cli::terminal_columns) << line;
  }
}

TEST(program, quantize_tells_what_it_wrote_and_refuses_to_write_over_it) {
  const temporary_folder folder;
  const words command{"quantize", "--model", model_folder, "--output", (folder / "fp8").string()};
  const child_result run = run_program(command + words{"--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json j = parsed_json(run.out);
  EXPECT_EQ(j["quantised"], 576);
  EXPECT_EQ(j["tensors"], 605);
  EXPECT_EQ(j["files"], 3);
  EXPECT_LT(j["bytes_after"], 0.55 * j["bytes_before"].get<double>());
  const child_result again = run_program(command);
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_TRUE(says(again.err, "--output", "expected an empty folder"));
  std::filesystem::remove_all(folder / "fp8");
  EXPECT_TRUE(says(run_program(command).out, "576 of 605 tensors", "instead of 19.3 MiB"));
}

TEST(program, a_quantised_model_generates_its_recorded_texts_and_its_layers_are_near_those_of_bf16) {
  const temporary_folder folder;
  const std::string narrow = (folder / "fp8").string(), output = (folder / "y.safetensors").string();
  ASSERT_EQ(run_program({"quantize", "--model", model_folder, "--output", narrow}).exit_code, 0);
  const std::string recorded = (tiny_moe_folder() / "greedy-fp8.json").string();
  const child_result texts =
      run_program({"generate", "--model", narrow, "--device", "cpu", "--expect", recorded, "--ranks", "2",
                   "--layout", "per_expert"});  // the same bits as on the one rank of the recording
  EXPECT_EQ(texts.exit_code, 0) << texts.err;
  EXPECT_TRUE(says(texts.out, "10.4 MiB, FP8", "fp8 weights", "5 of 5"));
  const child_result layer =
      run_program({"moe", "--model", narrow, "--layer", "1", "--device", "cpu", "--json", "--input",
                   layer_file(folder, 1, true, 64), "--output", output});
  ASSERT_EQ(layer.exit_code, 0) << layer.err;
  const json j = parsed_json(layer.out);
  EXPECT_EQ(j["settings"]["weights"], "fp8");
  EXPECT_GT(j["error"]["rms_relative"], 0x1p-8);
  EXPECT_LT(j["error"]["rms_relative"], 0.0884) << "sqrt(2) 2^-4: decision 0030";
}

TEST(program, generate_speaks_json) {
  const child_result run = run_program(generate + words{"--expect", greedy_file, "--ranks", "3", "--max-new",
                                                        "8", "--arrival", "sentinel", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.err, "");
  const json j = parsed_json(run.out);
  EXPECT_EQ(j["sequences"].size(), 5u);
  EXPECT_EQ(j["sequences"][0]["text"], "metaclas");
  EXPECT_EQ(j["sequences"][4]["rank"], 1);
  EXPECT_EQ(j["as_expected"]["good"], 5);
  EXPECT_EQ(j["settings"]["arrival"], "sentinel");
  EXPECT_EQ(j["settings"]["layout"], "per_rank");
  EXPECT_EQ(j["exchange"]["rows_of_experts"].size(), 3u);
  EXPECT_EQ(j["exchange"]["dispatch_bytes"].size(), 3u);
  EXPECT_GT(j["exchange"]["wire_bytes"], j["exchange"]["local_bytes"]);
  EXPECT_GT(j["tokens_per_second"], 0.0);
  for (const char* phase : {"prefill", "decode", "attention", "dispatch", "experts", "combine", "copies"}) {
    EXPECT_GT(j["seconds"][phase], 0.0) << phase;
  }
}

TEST(program, generate_takes_prompts_from_anywhere_and_any_bytes) {
  const temporary_folder folder;
  write_file(folder / "p.txt", "\xff\xfe\n");
  const child_result run =
      run_program(generate + words{"--prompt", "a", "--prompt", "\x1b[2J", "--prompts-file",
                                   (folder / "p.txt").string(), "--max-new", "4", "--json", "--ranks", "2"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json j = parsed_json(run.out);
  EXPECT_EQ(j["sequences"].size(), 3u);
  EXPECT_EQ(j["sequences"][1]["prompt"], "\\x1b[2J");
  EXPECT_EQ(j["sequences"][2]["prompt"], "\\xff\\xfe");
  EXPECT_EQ(j["sequences"][2]["tokens"].size(), 4u);
  EXPECT_FALSE(j.contains("as_expected"));
}

TEST(program, generate_with_the_reference_gives_the_same_text) {
  const child_result run = run_program(
      generate + words{"--expect", greedy_file, "--max-new", "6", "--backend", "reference", "--json"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_FALSE(parsed_json(run.out).contains("exchange"));
}

TEST(program, generate_with_attention_by_the_library_gives_the_same_text) {
  const words asked = generate + words{"--expect", greedy_file, "--max-new", "6", "--attention", "library"};
  const child_result run = run_program(asked + words{"--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(parsed_json(run.out)["attention"], "library");
  const child_result refused = run_program(asked + words{"--backend", "reference"});
  EXPECT_TRUE(says(refused.err, "--attention library", "--backend exchange"));
}

TEST(program, moe_writes_the_layers_output_and_reports_its_error) {
  const temporary_folder folder;
  const std::string output = (folder / "y.safetensors").string();
  const child_result run = run_program(moe(layer_file(folder, 1, true), output, {"--ranks", "3", "--json"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json error = parsed_json(run.out)["error"];
  EXPECT_EQ(error["within_bound"], true);
  EXPECT_GT(error["max_abs"], 0.0);
  EXPECT_LT(error["rms_relative"], 0.01);
  const auto file = model::safetensors_file::open(output);
  const std::vector<float> found = model::to_float(file.at("hidden_states", {1024, 256}));
  const std::vector<float> expected = model::to_float(fixture(1, "moe_output"));
  const auto token = error["worst"]["token"].get<std::size_t>(),
             column = error["worst"]["column"].get<std::size_t>();
  EXPECT_EQ(found[token * 256 + column], error["worst"]["found"].get<float>());
  EXPECT_EQ(expected[token * 256 + column], error["worst"]["expected"].get<float>());
}

TEST(program, moe_without_an_expected_output_just_computes_and_fp8_reports_a_larger_error) {
  const temporary_folder folder;
  const std::string output = (folder / "y.safetensors").string();
  const child_result silent = run_program(moe(layer_file(folder, 1, false), output));
  EXPECT_EQ(silent.exit_code, 0) << silent.err;
  EXPECT_EQ(silent.out.find("error against"), std::string::npos);
  const child_result fp8 = run_program(moe(layer_file(folder, 1, true), output, {"--format", "fp8"}));
  EXPECT_EQ(fp8.exit_code, 0) << fp8.err;
  EXPECT_TRUE(
      says(fp8.out, "error against moe_output", "rms relative 0.0", "within its rounding bound", "rank 3"));
}

TEST(program, layout_per_rank_is_told_and_within_its_bound) {
  const temporary_folder folder;
  const std::string output = (folder / "y.safetensors").string();
  const words per_rank{"--layout", "per_rank", "--json", "--ranks", "4"};
  const child_result layer = run_program(moe(layer_file(folder, 1, true), output, per_rank));
  ASSERT_EQ(layer.exit_code, 0) << layer.err;
  const json j = parsed_json(layer.out);
  EXPECT_EQ(j["settings"]["layout"], "per_rank");
  EXPECT_EQ(j["error"]["within_bound"], true);
  const child_result text =
      run_program(generate + words{"--expect", greedy_file, "--max-new", "4"} + per_rank);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_EQ(parsed_json(text.out)["as_expected"]["good"], 5);
  for (const char* transfer : {"chunks", "flags"}) {
    const child_result other =
        run_program(moe(layer_file(folder, 1, true), output,
                        per_rank + words{"--format", "fp8", "--transfer", transfer, "--rows", "token"}));
    ASSERT_EQ(other.exit_code, 0) << other.err;
    EXPECT_EQ(parsed_json(other.out)["error"]["within_bound"], true) << transfer;
  }
}

TEST(program, replicas_are_placed_by_a_recorded_routing_and_texts_and_layers_are_right_with_them) {
  const temporary_folder folder;
  const std::string output = (folder / "y.safetensors").string();
  const words replicas{"--replicas", "16", "--trace", (tiny_moe_folder() / "routing.safetensors").string(),
                       "--ranks",    "4",  "--json"};
  for (const char* layout : {"per_expert", "per_rank"}) {
    const child_result layer =
        run_program(moe(layer_file(folder, 1, true), output, replicas + words{"--layout", layout}));
    ASSERT_EQ(layer.exit_code, 0) << layer.err;
    const json j = parsed_json(layer.out);
    EXPECT_EQ(j["error"]["within_bound"], true);
    EXPECT_EQ(j["settings"]["replicas"], 16);
    EXPECT_EQ(j["settings"]["physical_to_logical"]["1"].size(), 80u);
  }
  const child_result text =
      run_program(generate + words{"--expect", greedy_file, "--max-new", "4", "--replicas", "16"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_TRUE(says(text.out, "16 replicas of experts", "5 of 5"));
  const child_result many =
      run_program(generate + words{"--prompt", "a", "--replicas", "65", "--ranks", "2"});
  EXPECT_EQ(many.exit_code, 2);
  EXPECT_TRUE(says(many.err, "--replicas: 65", "64"));
  const child_result none =
      run_program(generate + words{"--prompt", "a", "--trace", "x.safetensors", "--ranks", "2"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_TRUE(says(none.err, "--trace", "--replicas"));
}

TEST(program, moe_takes_f32_and_no_tokens_at_all) {
  const temporary_folder folder;
  const std::string input = (folder / "x.safetensors").string(), output = (folder / "y.safetensors").string();
  const std::vector<float> values(256, 0.5f);
  for (const std::int64_t tokens : {0, 1}) {
    const model::tensor_to_write tensor{
        "hidden_states",
        model::dtype::f32,
        {tokens, 256},
        std::as_bytes(std::span{values}.first(static_cast<std::size_t>(256 * tokens)))};
    model::write_safetensors(input, {&tensor, 1});
    const child_result run = run_program(moe(input, output, {"--ranks", "8"}));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(model::safetensors_file::open(output).at("hidden_states").shape,
              (model::tensor_shape{tokens, 256}));
  }
}

TEST(program, moe_fails_when_rounding_does_not_explain_the_error) {
  const temporary_folder folder;
  const std::string input = (folder / "x.safetensors").string(), output = (folder / "y.safetensors").string();
  const model::tensor_view& states = fixture(1, "moe_input");
  std::vector<float> wrong = model::to_float(fixture(1, "moe_output"));
  wrong[5 * 256 + 7] += 1.0f;
  const auto input_bytes = bytes_of(states);
  const std::vector<model::tensor_to_write> tensors{
      {"hidden_states", states.type, states.shape, input_bytes},
      {"moe_output", model::dtype::f32, {1024, 256}, std::as_bytes(std::span{wrong})}};
  model::write_safetensors(input, tensors);
  const child_result run = run_program(moe(input, output));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_TRUE(says(run.out, "worst at [5, 7]", "rounding does not explain"));
}

TEST(program, doctor_speaks_json) {
  const child_result run = run_program({"doctor", "--quick", "--json"});
  EXPECT_TRUE(run.exit_code == 0 || run.exit_code == 1) << run.err;
  EXPECT_TRUE(parsed_json(run.out).is_object());
}

}  // namespace
}  // namespace baton::test
