#pragma once
// Runs the program baton as its users do: another process, its two outputs and its exit code.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/cpu/temporary_folder.hpp"

namespace baton::test {

struct child_result {
  int exit_code = -1;  // 128 + n: killed by signal n
  std::string out;
  std::string err;
};

namespace child_detail {

inline void redirect(const std::filesystem::path& file, int descriptor) {
  const int opened = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (opened < 0 || ::dup2(opened, descriptor) < 0) ::_exit(127);
}

}  // namespace child_detail

/// `environment` holds NAME=VALUE; variables of baton that the caller's environment has are not passed on.
inline child_result run_program(const std::vector<std::string>& arguments,
                                const std::vector<std::string>& environment = {}) {
  const temporary_folder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    child_detail::redirect(folder / "out", STDOUT_FILENO);
    child_detail::redirect(folder / "err", STDERR_FILENO);
    for (const char* name : {"BATON_DEVICE", "BATON_DEADLINE_MS"}) ::unsetenv(name);
    for (const std::string& variable : environment) ::putenv(const_cast<char*>(variable.c_str()));
    std::vector<char*> argv{const_cast<char*>(BATON_PROGRAM)};
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    ::execv(BATON_PROGRAM, argv.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_file(folder / "out"),
          read_file(folder / "err")};
}

/// Exit code and complaint of a command line of the shell in which $BATON is the program.
inline child_result run_shell(const std::string& line) {
  const temporary_folder folder;
  const std::string whole = "BATON='" BATON_PROGRAM "'; " + line + " 2>'" + (folder / "err").string() + "'";
  const int status = std::system(whole.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, "", read_file(folder / "err")};
}

}  // namespace baton::test
