// How the program baton fails: exit codes, messages, and files left alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/commands/failure.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/command_lines.hpp"
#include "tests/support/parsed_json.hpp"

namespace baton::test {
namespace {

using nlohmann::json;

struct bad_case {
  const char* name;
  words arguments;
  int exit_code;
  words parts;  // of the message
};

class bad_input : public testing::TestWithParam<bad_case> {};

TEST_P(bad_input, is_one_clear_line_an_exit_code_and_an_object_with_json) {
  const bad_case& bad = GetParam();
  const child_result run = run_program(bad.arguments);
  EXPECT_EQ(run.exit_code, bad.exit_code) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  EXPECT_TRUE(run.err.starts_with("baton: error: ")) << run.err;
  for (const std::string& part : bad.parts) EXPECT_TRUE(says(run.err, part));
  const child_result machine = run_program(bad.arguments + words{"--json"});
  EXPECT_EQ(machine.exit_code, bad.exit_code);
  EXPECT_EQ(parsed_json(machine.out)["error"]["exit_code"], bad.exit_code);
}

const std::vector<bad_case> bad_cases{
    {"no_such_command",
     {"generat"},
     2,
     {"no command named generat; did you mean generate?", "see baton --help"}},
    {"no_model", {"generate", "--prompt", "a"}, 2, {"--model is required", "baton generate --help"}},
    {"unknown_option", {"--modle", "x"}, 2, {"no option --modle", "see baton --help"}},
    {"misspelt_option",
     generate + words{"--promt", "a"},
     2,
     {"no option --promt; did you mean --prompt?", "baton generate --help"}},
    {"shortened_option", generate + words{"--max-n=7"}, 2, {"no option --max-n; did you mean --max-new?"}},
    {"misspelt_option_beside_one_that_is_missing",
     {"moe", "--leyer", "1"},
     2,
     {"no option --leyer; did you mean --layer?"}},
    {"misspelt_command_of_bench", {"bench", "rign"}, 2, {"no command named rign; did you mean ring?"}},
    {"a_word_too_many", {"version", "please"}, 2, {"an argument too many: please"}},
    {"bench_of_nothing", {"bench"}, 2, {"bench needs a command: ", "ring", "ep", "see baton bench --help"}},
    {"bench_repeats",
     {"bench", "ep", "--repeats", "2147483647"},
     2,
     {"--repeats: 2147483647 is outside [1, 1048576]"}},
    {"bench_tokens", {"bench", "ep", "--tokens", "0"}, 2, {"--tokens: 0 is outside [1, 65536]"}},
    {"bench_ranks", {"bench", "ep", "--ranks", "0"}, 2, {"--ranks: 0 is outside [1, 8]"}},
    {"bench_experts", {"bench", "ep", "--experts", "1025"}, 2, {"--experts: 1025"}},
    {"bench_sms", {"bench", "ep", "--device", "cpu", "--sms", "-1"}, 2, {"--sms: -1"}},
    {"bench_threads", {"bench", "ep", "--device", "cpu", "--threads", "33"}, 2, {"--threads: 33"}},
    {"bench_silu_columns",
     {"bench", "silu", "--device", "cpu", "--columns", "40"},
     2,
     {"--columns: 40 is not a multiple of 128, as format fp8 needs"}},
    {"rows_of_another_layout",
     generate + words{"--prompt", "a", "--layout", "per_expert", "--rows", "token"},
     2,
     {"--rows: by_token, but layout per_expert"}},
    {"bench_hand_offs", {"bench", "ring", "--hand-offs", "0"}, 2, {"--hand-offs: 0"}},
    {"absent_model",
     {"generate", "--model", "/nonexistent", "--prompt", "a"},
     2,
     {"/nonexistent", "found nothing"}},
    {"nothing_to_continue", generate, 2, {"--prompt", "--expect"}},
    {"empty_prompt", generate + words{"--prompt", ""}, 2, {"prompt 0 is empty"}},
    {"zero_ranks", generate + words{"--prompt", "a", "--ranks", "0"}, 2, {"--ranks: 0", "[1, 8]"}},
    {"negative_ranks", generate + words{"--prompt", "a", "--ranks", "-3"}, 2, {"--ranks: -3"}},
    {"ranks_that_are_no_number",
     generate + words{"--prompt", "a", "--ranks", "many"},
     2,
     {"--ranks", "many"}},
    {"too_many_ranks",
     generate + words{"--prompt", "a", "--ranks", "9"},
     2,
     {"--ranks: 9", "[1, 8], the ranks of one p2p group"}},
    {"ranks_that_no_memory_holds",
     generate + words{"--prompt", "a", "--ranks", "2147483647"},
     2,
     {"--ranks: 2147483647 is outside [1, 8]"}},
    {"unknown_device",
     generate + words{"--prompt", "a", "--device", "gpu"},
     2,
     {"--device", "gpu", "auto,cpu,cuda"}},
    {"zero_new_tokens", generate + words{"--prompt", "a", "--max-new", "0"}, 2, {"--max-new", "0"}},
    {"zero_tokens_per_rank",
     generate + words{"--prompt", "a", "--max-tokens-per-rank", "0"},
     2,
     {"--max-tokens-per-rank: 0"}},
    {"prompt_past_the_last_position",
     generate + words{"--prompt", std::string(1025, 'a')},
     2,
     {"1025 tokens", "max_position_embeddings"}},
    {"continuation_past_the_last_position",
     generate + words{"--prompt", "a", "--max-new", "1025"},
     2,
     {"1025 positions"}},
    {"absent_prompts_file",
     generate + words{"--prompts-file", "/nonexistent"},
     2,
     {"/nonexistent", "No such file"}},
    {"expectations_that_are_not_json",
     generate + words{"--expect", model_folder + "/README.md"},
     2,
     {"README.md", "JSON"}},
    {"layer_out_of_range",
     words{"moe", "--model", model_folder, "--layer", "3", "--input", "x", "--output", "y"},
     2,
     {"--layer 3", "0 to 2"}},
    {"negative_layer",
     words{"moe", "--model", model_folder, "--layer", "-1", "--input", "x", "--output", "y"},
     2,
     {"--layer -1"}},
    {"absent_input", moe("/nonexistent", "/tmp/y"), 2, {"/nonexistent", "No such file"}},
    {"input_without_hidden_states",
     moe(model_folder + "/fixtures.safetensors", "/tmp/y"),
     2,
     {"fixtures.safetensors", "hidden_states"}},
    {"input_that_is_no_safetensors", moe(greedy_file, "/tmp/y"), 2, {"greedy.json"}},
    {"output_into_nowhere", moe("x", "/nonexistent/y"), 2, {"--output /nonexistent/y", "no directory"}},
    {"output_that_is_a_directory", moe("x", "/tmp"), 2, {"--output /tmp", "is a directory"}},
};

INSTANTIATE_TEST_SUITE_P(program, bad_input, testing::ValuesIn(bad_cases),
                         [](const auto& info) { return std::string{info.param.name}; });

TEST(program_failures, an_environment_that_makes_no_sense_is_bad_input) {
  EXPECT_EQ(run_program(generate + words{"--prompt", "a"}, {"BATON_DEADLINE_MS=soon"}).exit_code, 2);
  const words command{"generate", "--model", model_folder, "--prompt", "a"};
  EXPECT_EQ(run_program(command, {"BATON_DEVICE=abacus"}).exit_code, 2);
}

TEST(program_failures, a_failure_leaves_the_output_file_as_it_was) {
  const temporary_folder folder;
  const std::string output = (folder / "y.safetensors").string();
  write_file(output, "precious");
  std::vector<float> values(2 * 256, 1.0f);
  values[300] = std::numeric_limits<float>::quiet_NaN();
  const model::tensor_to_write tensor{
      "hidden_states", model::dtype::f32, {2, 256}, std::as_bytes(std::span{values})};
  const std::string input = (folder / "x.safetensors").string();
  model::write_safetensors(input, {&tensor, 1});
  const child_result run = run_program(moe(input, output));
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_TRUE(says(run.err, "hidden_states[1, 44] is nan"));
  EXPECT_EQ(read_file(output), "precious");
  const auto files = std::distance(std::filesystem::directory_iterator{folder.path()}, {});
  EXPECT_EQ(files, 2) << "nothing half-written lies around";
}

TEST(program_failures, a_shape_that_does_not_fit_is_named_with_what_was_expected) {
  const temporary_folder folder;
  const std::vector<float> values(100, 1.0f);
  const model::tensor_to_write tensor{
      "hidden_states", model::dtype::f32, {1, 100}, std::as_bytes(std::span{values})};
  const std::string input = (folder / "x.safetensors").string();
  model::write_safetensors(input, {&tensor, 1});
  const child_result run = run_program(moe(input, (folder / "y").string()));
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_TRUE(says(run.err, "hidden_states", "[1, 100]", "256"));
}

TEST(program_failures, a_standard_output_that_is_full_or_closed_is_an_error_whatever_the_command) {
  const std::string generate_line = "generate --device cpu --max-new 1 --prompt a --model " + model_folder;
  for (const std::string& command :
       {std::string{"--help"}, std::string{"--version"}, std::string{"version"},
        std::string{"version --json"}, std::string{"generate --help"}, std::string{"check --list"},
        std::string{"doctor --quick"}, std::string{"bench ring --device cpu --sizes 64 --repeats 1"},
        std::string{"bench ep --device cpu --ranks 1 --tokens 1 --repeats 1"}, generate_line,
        generate_line + " --json"}) {
    for (const char* lost : {" >/dev/full", " >&-"}) {
      const child_result run = run_shell("\"$BATON\" " + command + lost);
      EXPECT_EQ(run.exit_code, 2) << command << lost;
      EXPECT_TRUE(says(run.err, "baton: error: standard output: cannot be written")) << command << lost;
    }
  }
}

TEST(program_failures, a_closed_standard_output_does_not_end_up_in_a_file) {
  const temporary_folder folder;
  const std::string path = (folder / "points.jsonl").string();
  run_shell("\"$BATON\" bench ring --device cpu --sizes 64 --repeats 1 --strategy mbarrier --json-file '" +
            path + "' >&-");
  EXPECT_TRUE(read_file(path).empty() || json::accept(read_file(path))) << read_file(path);
}

TEST(program_failures, a_limit_on_files_is_an_error_that_leaves_nothing_behind) {
  const temporary_folder folder;
  const std::string path = (folder / "points.jsonl").string();
  const std::string line =
      "ulimit -f 0; \"$BATON\" bench ring --device cpu --sizes 64 --repeats 1 --json-file '" + path +
      "' >/dev/null";
  EXPECT_EQ(run_shell(line).exit_code, 2);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(program_failures, a_benchmark_that_is_ended_leaves_old_results_and_nothing_else) {
  const temporary_folder folder;
  const std::string path = (folder / "old.jsonl").string();
  write_file(path, "old results");
  const auto files = [&] { return std::distance(std::filesystem::directory_iterator{folder.path()}, {}); };
  for (const int signal : {SIGINT, SIGTERM}) {
    const pid_t child = ::fork();
    if (child == 0) {
      child_detail::redirect("/dev/null", STDOUT_FILENO);
      ::signal(signal, SIG_DFL);  // who starts tests in the background may ignore it
      ::execl(BATON_PROGRAM, "baton", "bench", "ring", "--device", "cpu", "--sizes", "512", "--repeats",
              "100000", "--json-file", path.c_str(), nullptr);
      ::_exit(127);
    }
    for (int i = 0; i < 2000 && files() == 1; ++i) ::usleep(5000);
    EXPECT_EQ(files(), 2) << "the points measured so far";
    ::kill(child, signal);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    EXPECT_EQ(files(), 1);
    EXPECT_EQ(read_file(path), "old results");
  }
}

template <class Exception>
cli::failure failure_of(const Exception& e) {
  return cli::describe_failure(std::make_exception_ptr(e));
}

TEST(failure, every_kind_of_error_has_its_exit_code) {
  using cli::exit_code;
  EXPECT_EQ(failure_of(invalid_argument{"a"}).code, exit_code::bad_input);
  EXPECT_EQ(failure_of(bad_file{"a"}).code, exit_code::bad_input);
  EXPECT_EQ(failure_of(device_error{"a"}).code, exit_code::bad_input);
  EXPECT_EQ(failure_of(stuck{"a", {}}).code, exit_code::peer_lost);
  EXPECT_EQ(failure_of(transport_error{"a"}).code, exit_code::peer_lost);
  EXPECT_EQ(failure_of(unsupported{"a"}).code, exit_code::no_device);
  EXPECT_EQ(failure_of(cuda_error{"a"}).code, exit_code::no_device);
  EXPECT_EQ(failure_of(out_of_memory{"a", 1, 0}).code, exit_code::out_of_memory);
  EXPECT_EQ(failure_of(std::bad_alloc{}).code, exit_code::out_of_memory);
  EXPECT_EQ(failure_of(error{"a"}).code, exit_code::internal);
  EXPECT_EQ(failure_of(std::runtime_error{"a"}).code, exit_code::internal);
  EXPECT_EQ(failure_of(7).code, exit_code::internal);
}

TEST(failure, is_told_on_one_printable_line) {
  EXPECT_EQ(failure_of(bad_file{"first\n    second\x1b\n"}).message, "first second\\x1b");
  std::ostringstream out, err;
  cli::report_failure(failure_of(stuck{"rank 1 waits", {}}), true, out, err);
  EXPECT_EQ(err.str(), "baton: error: rank 1 waits\n");
  EXPECT_EQ(parsed_json(out.str())["error"]["kind"], "stuck");
}

}  // namespace
}  // namespace baton::test
