#pragma once
// Protocols, each with the explorations that must hold and the planted bugs that must be found, as data: for `baton
// check`, for the tests, and for the pages in docs/protocols.
#include <functional>
#include <string>
#include <vector>

#include "sim/check.hpp"

namespace baton::checks {

/// One bound. `run` is given how far to go; the exploration may narrow that.
struct exploration {
  std::string name;  // "2 ranks, 5 rounds, epoch"
  std::function<check::result(const check::bounds&)> run;
};

/// A planted bug.
struct mutant {
  std::string name;    // "the release store is relaxed"
  std::string breaks;  // what of the header's comment no longer holds: "E1", "Start", "Progress"
  std::vector<check::verdict> noticed_as;
  std::function<check::result(const check::bounds&)> run;
};

struct protocol_check {
  std::string name;                       // "arrival"
  std::string title;                      // one line
  std::vector<std::string> headers;       // "src/protocol/arrival.hpp", the one that explains it first
  std::vector<exploration> explorations;  // the first one is small enough to be drawn
  std::vector<mutant> mutants;
};

/// Every protocol of the library, in the order of reading.
const std::vector<protocol_check>& all_protocol_checks();

}  // namespace baton::checks
