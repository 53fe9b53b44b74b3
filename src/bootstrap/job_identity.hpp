#pragma once
// What tells the ranks of one job from those of another that meets at the same name by mistake.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace baton::bootstrap {

/// A process number is given out again, together with the start time it is not.
struct process_identity {
  std::uint64_t started = 0;
  std::int64_t pid = 0;
  bool operator==(const process_identity&) const = default;
};

/// Travels between processes of one machine as it is.
struct job_identity {
  std::uint64_t secret = 0;  // of what the launcher says; 0: it says nothing, and the rest counts
  std::array<process_identity, 6> ancestors{};  // the parent first
  std::int32_t session = 0;
  std::int32_t process_group = 0;
  std::uint64_t is_orphan = 0;
};

/// BATON_JOB, else TORCHELASTIC_RUN_ID unless it is torchrun's "none"; and who started this process.
job_identity job_of_this_process();

/// Whether the process that started this one has these others as children too, and nobody else: then nobody of another
/// job that nothing tells apart is among them.
bool are_all_of_one_starter(std::vector<std::int64_t> others);

/// Empty: they may be of one job. Else why not, and what to do; `rank` came to rank 0. Of one job are ranks that one
/// process started, also where each has a wrapper of its own, such as a profiler: a process between that has started
/// several is the launcher of another job. Two jobs without a secret that one process started cannot be told apart.
std::string why_other_job(const job_identity& root, const job_identity& other, int rank);

}  // namespace baton::bootstrap
