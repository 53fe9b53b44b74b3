#pragma once
// Verdicts on what a machine has. Pure, so that tests can plant machines.
#include <optional>
#include <string>
#include <vector>

#include "baton/device_facts.hpp"
#include "baton/line_trial.hpp"
#include "baton/network_facts.hpp"
#include "cli/bench/probe/probe.hpp"

namespace baton::cli {

enum class verdict { pass, warn, fail };
const char* name(verdict v);  // "PASS"

struct finding {
  std::string subject;
  verdict what = verdict::pass;
  std::string fact;
  std::string fix;  // empty where nothing is wrong
};

/// What was tried besides reading facts.
struct trials {
  std::string sharing_problem;              // empty: processes can share memory
  std::optional<probe::link_report> links;  // nothing: not measured
  std::string links_problem;                // why the measurement failed
  std::optional<line_trial> lines;          // nothing: not looked at
  network_facts network;                    // for ranks beyond a p2p group
};

std::vector<finding> judge(const device_facts& facts, const trials& tried, device_kind chosen);

/// The worst of all.
verdict overall(const std::vector<finding>& findings);

}  // namespace baton::cli
