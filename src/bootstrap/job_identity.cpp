#include "bootstrap/job_identity.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <string_view>

namespace baton::bootstrap {
namespace {

std::uint64_t secret_of_environment() {
  for (const char* name : {"BATON_JOB", "TORCHELASTIC_RUN_ID"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    if (std::string_view{name} != "BATON_JOB" && std::string_view{value} == "none") continue;
    return std::hash<std::string_view>{}(value) | 1u;
  }
  return 0;
}

/// Process numbers are given out again, together with the start time they are not; 0: /proc does not say.
std::uint64_t start_time_of(pid_t pid) {
  std::ifstream in{fmt::format("/proc/{}/stat", pid)};
  std::string text;
  std::getline(in, text);
  const auto name_end = text.rfind(')');  // the name of the program may hold anything
  if (name_end == std::string::npos) return 0;
  std::istringstream fields{text.substr(name_end + 1)};
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  std::uint64_t started = 0;
  fields >> started;
  return started;
}

bool same_starter(const job_identity& a, const job_identity& b) {
  if (a.parent == b.parent && a.parent_started == b.parent_started) return true;
  // The process that started both may be gone, and have been there still when one of them looked.
  return (a.is_orphan != 0 || b.is_orphan != 0) && a.session == b.session &&
         a.process_group == b.process_group;
}

}  // namespace

job_identity job_of_this_process() {
  job_identity job;
  job.secret = secret_of_environment();
  job.parent = ::getppid();
  job.parent_started = start_time_of(job.parent);
  job.session = ::getsid(0);
  job.process_group = ::getpgrp();
  job.is_orphan = ::getsid(job.parent) != job.session ? 1 : 0;  // whoever adopts lives in another session
  return job;
}

std::string why_other_job(const job_identity& root, const job_identity& other, int rank) {
  if (root.secret != other.secret)
    return fmt::format(
        "rank 0 is of another job than rank {}: they were given different BATON_JOB or TORCHELASTIC_RUN_ID. "
        "Give each job a MASTER_PORT of its own, and all ranks of a job the same BATON_JOB",
        rank);
  if (root.secret != 0 || same_starter(root, other)) return {};
  return fmt::format(
      "rank 0 seems to be of another job than rank {}: process {} started the one, process {} the other. "
      "Give "
      "each job a MASTER_PORT of its own; if this is one job, set BATON_JOB to the same text for all its "
      "ranks",
      rank, root.parent, other.parent);
}

}  // namespace baton::bootstrap
