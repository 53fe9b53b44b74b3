#pragma once
// Which rounds a rank has completed, and of which its peers' words have come.
#include <algorithm>
#include <vector>

#include "baton/ep_state.hpp"
#include "baton/expert_parallel.hpp"
#include "kernels/ep/per_expert/endpoint.hpp"
#include "kernels/ep/progress.hpp"

namespace baton::ep {

/// The last round of which all `experts` words of `rank` are here, in [local experts, R] words. Sentinels tell of the round after
/// `completed` alone.
inline std::uint64_t last_heard(const std::vector<std::uint64_t>& words, const shape& s, int rank,
                                int experts, arrival_policy policy, std::uint64_t completed) {
  std::uint64_t last = ~std::uint64_t{0};
  for (int local = 0; local < experts; ++local) {
    const std::uint64_t word = words[static_cast<std::size_t>(local * s.num_ranks + rank)];
    const bool is_idle = word == ~std::uint64_t{0};
    last = std::min(last, policy == arrival_policy::epoch ? word >> 32 : completed + (is_idle ? 0 : 1));
  }
  return experts > 0 ? last : completed;
}

inline void look(const endpoint& end, arrival_policy policy, const progress_reader& read, ep_state& state) {
  const shape& s = end.s;
  const round_counters rounds = read_word(read, end.rounds());
  state.rounds_dispatched = rounds.dispatch;
  state.rounds_combined = rounds.combine;
  std::vector<std::uint64_t> sent(static_cast<std::size_t>(s.num_pairs())), replied(sent);
  const std::size_t bytes = sent.size() * sizeof(std::uint64_t);
  read(sent.data(), end.of_rank<std::uint64_t>(s.rank, &window_layout::dispatch_count), bytes);
  read(replied.data(), end.of_rank<std::uint64_t>(s.rank, &window_layout::combine_count), bytes);
  for (int r = 0; r < s.num_ranks; ++r)
    state.heard.push_back({last_heard(sent, s, r, s.num_local_experts(s.rank), policy, rounds.dispatch),
                           last_heard(replied, s, r, s.num_local_experts(r), policy, rounds.combine)});
}

}  // namespace baton::ep
