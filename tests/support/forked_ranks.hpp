#pragma once
// Ranks as processes, for tests: forks before any thread exists in this process.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/unix_socket.hpp"

namespace baton::test {

/// A name at which no other test meets.
inline std::string unique_name() {
  return "baton-test-" + std::to_string(bootstrap::random_bits());
}

/// Sets what torchrun sets, in a child. Jobs with a run of their own never meet, whatever else runs here.
inline void set_launch_environment(int rank, int size, const std::string& run) {
  for (const auto& [name, value] :
       {std::pair{"RANK", rank}, {"WORLD_SIZE", size}, {"LOCAL_RANK", rank}, {"MASTER_PORT", 29411}})
    ::setenv(name, std::to_string(value).c_str(), 1);
  ::setenv("TORCHELASTIC_RUN_ID", run.c_str(), 1);
}

struct rank_result {
  int exit_code = -1;  // 0: `work` returned true; 1: false; 2: it threw; 128 + n: signal n
  std::string thrown;  // the text of what it threw
};

/// Runs work(rank) in a child process each and waits for all. A test failure is `false`: the checks of the
/// test framework do not reach across processes.
inline std::vector<rank_result> in_processes(const std::vector<int>& ranks,
                                             const std::function<bool(int)>& work) {
  struct child {
    pid_t pid;
    int pipe;
  };
  std::vector<child> children;
  std::fflush(nullptr);
  for (const int rank : ranks) {
    int ends[2] = {-1, -1};
    if (::pipe(ends) != 0) std::abort();
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::close(ends[0]);
      int code = 2;
      try {
        code = work(rank) ? 0 : 1;
      } catch (const std::exception& e) {
        const std::string text = e.what();
        if (::write(ends[1], text.data(), text.size()) < 0) code = 3;
      }
      ::_exit(code);
    }
    ::close(ends[1]);
    children.push_back({pid, ends[0]});
  }
  std::vector<rank_result> results;
  for (const child& c : children) {
    rank_result r;
    char buffer[512];
    for (ssize_t n = 0; (n = ::read(c.pipe, buffer, sizeof buffer)) > 0;)
      r.thrown.append(buffer, static_cast<std::size_t>(n));
    ::close(c.pipe);
    int status = 0;
    ::waitpid(c.pid, &status, 0);
    r.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    results.push_back(std::move(r));
  }
  return results;
}

}  // namespace baton::test
