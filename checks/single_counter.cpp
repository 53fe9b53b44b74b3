#include "protocol/ring/single_counter.hpp"

#include "checks/all.hpp"
#include "checks/ring_exploration.hpp"

namespace baton::checks {

protocol_check single_counter_check() {
  return ring_checks<single_counter_sync>::all("single_counter", "A ring buffer with one counter a slot",
                                               "src/protocol/ring/single_counter.hpp");
}

}  // namespace baton::checks
