#pragma once
#include <ostream>

namespace baton::cli {

struct doctor_options {
  bool json = false;
  bool quick = false;  // measure nothing
};

/// Says what this machine has and what baton will do on it, each line with a verdict and, where something is
/// wrong, the fix. Returns an exit_code: check_failed if a check failed; warnings pass.
int run_doctor(const doctor_options& options, std::ostream& out);

}  // namespace baton::cli
