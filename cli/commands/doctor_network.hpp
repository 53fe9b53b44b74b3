#pragma once
#include <vector>

#include "cli/commands/doctor_findings.hpp"

namespace baton::cli {

/// Verdicts on what ranks beyond a p2p group need. Where nothing of it is here, nobody has asked for it: that is no fault.
void judge_network(const network_facts& n, const std::vector<gpu_facts>& gpus, std::vector<finding>& out);

}  // namespace baton::cli
