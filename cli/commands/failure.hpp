#pragma once
// How a failed command ends: one line for people, an object for machines, and an exit code.
#include <exception>
#include <ostream>
#include <string>

#include "cli/exit_code.hpp"

namespace baton::cli {

struct failure {
  exit_code code = exit_code::internal;
  std::string kind;     // "bad_file"
  std::string message;  // printable, one line
};

failure describe_failure(const std::exception_ptr& thrown);

/// "baton: error: ..." on `err`; with `json` also {"error": {...}} on `out`. Returns the exit code.
int report_failure(const failure& what, bool json, std::ostream& out, std::ostream& err);

}  // namespace baton::cli
