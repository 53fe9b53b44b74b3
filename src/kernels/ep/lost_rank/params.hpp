#pragma once
#include "exec/wait.hpp"
#include "protocol/lost_rank.hpp"

namespace baton::ep::lost_rank {

struct params {
  loss_words words{};
  stuck_record* record{};       // this rank's; where it is not complete, there is nothing to tell
  std::uint64_t deadline_ns{};  // of the waits that gave up; 0: none did
  bool has_two_levels{};        // some waits last two
};

}  // namespace baton::ep::lost_rank
