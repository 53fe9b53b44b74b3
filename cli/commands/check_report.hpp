#pragma once
// What `baton check` prints: a table for people as it goes, one JSON object for machines at the end.
#include <chrono>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "cli/commands/check.hpp"
#include "cli/view/terminal.hpp"

namespace baton::cli {

/// No line is wider than this, traces apart.

/// An exploration or a mutant of a protocol, and what came of it.
struct check_run {
  const checks::protocol_check* protocol = nullptr;
  const checks::exploration* exploration = nullptr;  // either this
  const checks::mutant* mutant = nullptr;            // or that
  check::result result;
};

/// Noticed as one of the things that it should be noticed as.
bool is_killed(const check_run& run);

/// Names, titles and numbers of explorations and mutants.
void list_checks(const std::vector<const checks::protocol_check*>& protocols, bool json, std::ostream& out);

class check_report {
 public:
  check_report(const check_options& options, std::ostream& out);

  /// Runs of one protocol come one after another, explorations first.
  void add(const check_run& run);
  void close();
  bool all_well() const { return failures_ == 0; }

 private:
  void begin_protocol(const check_run& run);
  void end_protocol();
  void add_exploration(const check_run& run);
  void add_mutant(const check_run& run);
  void print_name(const std::string& name, std::size_t width);
  void print_text(const std::string& text, std::size_t indent);
  void print_trace(const std::string& trace);

  const check_options& options_;
  std::ostream& out_;
  style marks_;
  nlohmann::ordered_json json_ = nlohmann::ordered_json::array();
  const checks::protocol_check* protocol_ = nullptr;
  int protocols_ = 0, explorations_ = 0, holding_ = 0, cut_short_ = 0, mutants_ = 0, killed_ = 0,
      failures_ = 0;
  int mutants_here_ = 0, killed_here_ = 0;
  double mutant_seconds_here_ = 0;
  std::vector<std::string> survivors_here_;
  std::uint64_t executions_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace baton::cli
