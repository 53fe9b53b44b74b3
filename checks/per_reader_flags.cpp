#include "protocol/ring/per_reader_flags.hpp"

#include "checks/all.hpp"
#include "checks/ring_exploration.hpp"

namespace baton::checks {

protocol_check per_reader_flags_check() {
  return ring_checks<per_reader_flags>::all(
      "per_reader_flags", "A ring buffer with a flag for the producer and one for each reader",
      "src/protocol/ring/per_reader_flags.hpp");
}

}  // namespace baton::checks
