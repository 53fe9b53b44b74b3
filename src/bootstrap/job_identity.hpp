#pragma once
// What tells the ranks of one job from those of another that meets at the same name by mistake.
#include <cstdint>
#include <string>

namespace baton::bootstrap {

/// Travels between processes of one machine as it is.
struct job_identity {
  std::uint64_t secret = 0;  // of what the launcher says; 0: it says nothing, and who started us has to do
  std::uint64_t parent_started = 0;
  std::int32_t parent = 0;
  std::int32_t session = 0;
  std::int32_t process_group = 0;
  std::int32_t is_orphan = 0;
};

/// BATON_JOB, else TORCHELASTIC_RUN_ID unless it is torchrun's "none"; and the process that started this one.
job_identity job_of_this_process();

/// Empty: they may be of one job. Else why not, and what to do; `rank` came to rank 0. Two jobs without a secret
/// that one process started cannot be told apart.
std::string why_other_job(const job_identity& root, const job_identity& other, int rank);

}  // namespace baton::bootstrap
