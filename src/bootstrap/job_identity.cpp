#include "bootstrap/job_identity.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string_view>
#include <system_error>

#include "baton/error.hpp"

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

/// A file of /proc. What it does not tell about others counts as unknown, unless it is this process that cannot look.
std::ifstream open_proc(const std::string& file) {
  std::ifstream in{file};
  if (!in && (errno == EMFILE || errno == ENFILE))
    throw transport_error{fmt::format("cannot read {}: {}; raise the limit of open files (ulimit -n)", file,
                                      std::strerror(errno))};
  return in;
}

struct process_facts {
  process_identity self;
  std::int64_t parent = 0;
};

/// All zero where /proc does not say.
process_facts facts_of(std::int64_t pid) {
  std::ifstream in = open_proc(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(in, text);
  const auto name_end = text.rfind(')');  // the name of the program may hold anything
  if (name_end == std::string::npos) return {{0, pid}, 0};
  std::istringstream fields{text.substr(name_end + 1)};
  process_facts facts{{0, pid}, 0};
  std::string skipped;
  fields >> skipped >> facts.parent;
  for (int field = 5; field < 22; ++field) fields >> skipped;
  fields >> facts.self.started;
  return facts;
}

/// Also those that ended and that nobody has asked after. None where /proc does not say.
std::vector<std::int64_t> children_of(std::int64_t pid) {
  open_proc(fmt::format("/proc/{}/stat", pid));  // says so if there is no room for the folder either
  std::vector<std::int64_t> children;
  std::error_code gone;
  for (const auto& thread : std::filesystem::directory_iterator{fmt::format("/proc/{}/task", pid), gone}) {
    std::ifstream in = open_proc(thread.path() / "children");
    for (std::int64_t child = 0; in >> child;) children.push_back(child);
  }
  return children;
}

/// The ancestors below `common`, which started nothing but one rank if they only wrap it.
bool are_wrappers(const job_identity& job, const process_identity& common) {
  for (const process_identity& a : job.ancestors) {
    if (a == common) return true;
    if (children_of(a.pid).size() != 1) return false;
  }
  return false;
}

bool same_starter(const job_identity& a, const job_identity& b) {
  if (a.ancestors[0] == b.ancestors[0]) return true;
  // The process that started both may be gone, and have been there still when one of them looked.
  if ((a.is_orphan != 0 || b.is_orphan != 0) && a.session == b.session && a.process_group == b.process_group)
    return true;
  const auto common =
      std::find_first_of(a.ancestors.begin(), a.ancestors.end(), b.ancestors.begin(), b.ancestors.end());
  return common != a.ancestors.end() && common->pid != 0 && are_wrappers(a, *common) &&
         are_wrappers(b, *common);
}

}  // namespace

job_identity job_of_this_process() {
  job_identity job;
  job.secret = secret_of_environment();
  std::int64_t pid = ::getppid();
  for (process_identity& ancestor : job.ancestors) {
    const process_facts facts = facts_of(pid);
    ancestor = facts.self;
    pid = facts.parent;
  }
  job.session = ::getsid(0);
  job.process_group = ::getpgrp();
  job.is_orphan = ::getsid(::getppid()) != job.session ? 1 : 0;  // whoever adopts lives in another session
  return job;
}

bool are_all_of_one_starter(std::vector<std::int64_t> others) {
  others.push_back(::getpid());
  std::vector<std::int64_t> started = children_of(::getppid());
  std::sort(others.begin(), others.end());
  std::sort(started.begin(), started.end());
  return started == others;
}

std::string why_other_job(const job_identity& root, const job_identity& other, int rank) {
  if (root.secret != other.secret)
    return fmt::format(
        "the rank 0 that listens is of another job than this rank {}: they were given different BATON_JOB or "
        "TORCHELASTIC_RUN_ID. Give each job a MASTER_PORT of its own, and all ranks of a job the same "
        "BATON_JOB",
        rank);
  if (root.secret != 0 || same_starter(root, other)) return {};
  return fmt::format(
      "the rank 0 that listens seems to be of another job than this rank {}: process {} started it, and "
      "process {} "
      "this one. Give each job a MASTER_PORT of its own; if this is one job, set BATON_JOB to the same text "
      "for all "
      "its ranks",
      rank, root.ancestors[0].pid, other.ancestors[0].pid);
}

}  // namespace baton::bootstrap
