#include "protocol/ring/split_counter.hpp"

#include "checks/all.hpp"
#include "checks/ring_exploration.hpp"

namespace baton::checks {

protocol_check split_counter_check() {
  return ring_checks<split_counter_sync>::all("split_counter", "A ring buffer with two counters a slot",
                                              "src/protocol/ring/split_counter.hpp");
}

}  // namespace baton::checks
