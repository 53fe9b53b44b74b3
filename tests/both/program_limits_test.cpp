// Failures of the program baton that depend on how it was built: without a GPU, and with less memory than a sanitizer takes.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cpu/says.hpp"
#include "tests/support/command_lines.hpp"
#include "tests/support/parsed_json.hpp"

namespace baton::test {
namespace {

using nlohmann::json;

TEST(program_failures, a_device_that_is_absent_is_its_own_exit_code_and_auto_uses_the_cpu) {
  const words command{"generate", "--model", model_folder, "--prompt", "a", "--max-new", "1"};
  const child_result cuda = run_program(command + words{"--device", "cuda"});
  if (cuda.exit_code == 0) GTEST_SKIP() << "this machine has GPUs";
  EXPECT_EQ(cuda.exit_code, 4);
  EXPECT_TRUE(says(cuda.err, "cuda"));
  EXPECT_EQ(run_program(command, {"BATON_DEVICE=cuda"}).exit_code, 4);
  const child_result automatic = run_program(command + words{"--json"});
  EXPECT_EQ(automatic.exit_code, 0) << automatic.err;
  EXPECT_EQ(parsed_json(automatic.out)["settings"]["device"], "cpu");
  EXPECT_NE(parsed_json(automatic.out)["settings"]["why_not_cuda"], "");
}

TEST(program_failures, a_limit_on_memory_is_an_error_of_every_thread) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer reserves more addresses than a small limit leaves";
#endif
  for (const std::string limit : {"ulimit -v 60000; ", "ulimit -v 150000; "}) {
    for (const char* command : {"doctor", "bench ep --device cpu --ranks 2 --tokens 1 --repeats 1",
                                "check --protocol arrival --jobs 16 --bound 50"}) {
      const child_result run = run_shell(limit + "\"$BATON\" " + command + " >/dev/null");
      EXPECT_TRUE(run.exit_code >= 0 && run.exit_code <= 5)
          << limit << command << ": " << run.exit_code << run.err;
      EXPECT_FALSE(says(run.err, "terminate") || says(run.err, "unexpected")) << limit << command << run.err;
    }
  }
}

TEST(program_failures, more_prompts_than_fit_memory_are_refused_before_the_work) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer reserves more addresses than a small limit leaves";
#endif
  const temporary_folder folder;
  const std::string path = (folder / "prompts.txt").string();
  std::string text;
  for (int i = 0; i < 2000; ++i) text += std::string(1000, 'x') + '\n';
  write_file(path, text);
  const child_result run = run_shell("ulimit -v 2000000; \"$BATON\" generate --model '" + model_folder +
                                     "' --max-new 1 --prompts-file '" + path + "'");
  EXPECT_EQ(run.exit_code, 5) << run.err;
  EXPECT_TRUE(says(run.err, "2000 prompts", "bytes needed", "--max-new")) << run.err;
}

}  // namespace
}  // namespace baton::test
