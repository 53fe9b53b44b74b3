#include "checks/all.hpp"
#include "checks/ring_exploration.hpp"
#include "protocol/ring/mbarrier_sync.hpp"

namespace baton::checks {

/// Phases here are parities: a threshold off by one is the other parity, which may stop the ring as well as hurry it. The
/// verbs have one order each, so there is none to weaken: the last two mutants of the counting strategies do not apply.
protocol_check mbarrier_ring_check() {
  protocol_check ring = ring_checks<mbarrier_sync>::all(
      "mbarrier_ring", "A ring buffer with two mbarriers a slot", "src/protocol/ring/mbarrier_sync.hpp");
  ring.mutants.resize(ring.mutants.size() - 2);
  for (mutant& m : ring.mutants) m.noticed_as.push_back(check::verdict::deadlock);
  return ring;
}

}  // namespace baton::checks
