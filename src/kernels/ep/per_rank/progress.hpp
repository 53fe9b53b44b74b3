#pragma once
// Which rounds a rank has completed, and of which its peers' ids have come; in lines, in chunks and by flags.
#include "baton/ep_state.hpp"
#include "kernels/ep/per_rank/endpoint.hpp"
#include "kernels/ep/progress.hpp"
#include "protocol/id_word.hpp"

namespace baton::ep::per_rank {

/// The round whose flag it is: the inverse of line_flag.
constexpr std::uint64_t round_of_flag(std::uint64_t flag) {
  const std::uint64_t factor = line_flag(1);
  std::uint64_t inverse = factor;  // right in its last 3 bits; each step doubles them
  for (int bits = 3; bits < 64; bits *= 2) inverse *= 2 - factor * inverse;
  return flag * inverse;
}
static_assert(round_of_flag(line_flag(0x123456789abcdef)) == 0x123456789abcdef);

/// The last round whose ids have come from `source`. Ids of two rounds have their places: the later is what was last heard. A
/// source's first line tells of all, or nearly.
template <class Cells>
std::uint64_t last_heard(const endpoint& end, const Cells& window, const progress_reader& read, int source,
                         const round_epochs&) {
  std::uint64_t last = 0;
  for (std::uint64_t parity = 0; parity < 2; ++parity) {
    const std::byte* line = end.windows.at[end.s.rank] + window.ids_at(end.s, parity, source, 0);
    const std::uint64_t round = round_of_flag(
        read_word(read, reinterpret_cast<const std::uint64_t*>(line + line_bytes - sizeof(std::uint64_t))));
    if (round % 2 == parity && round > last) last = round;
  }
  return last;
}
/// A word tells whether it is of a round, not of which: of those that its source may be in, the last that fits.
inline std::uint64_t last_heard(const endpoint& end, const flag_cells& window, const progress_reader& read,
                                int source, const round_epochs& rounds) {
  for (std::uint64_t round = rounds.dispatched + 2, least = rounds.dispatched; round > 0 && round >= least;
       --round) {
    const std::byte* words = end.windows.at[end.s.rank] + window.ids_at(end.s, round, source, 0);
    const auto* count = reinterpret_cast<const std::uint64_t*>(words) + count_lane;
    if (id_word::is(read_word(read, count), round)) return round;
  }
  return 0;
}

template <class Cells>
void look(const endpoint& end, const Cells& window, const progress_reader& read, ep_state& state) {
  const round_epochs rounds = read_word(read, end.epochs());
  state.rounds_dispatched = rounds.dispatched;
  state.rounds_combined = rounds.combined;
  for (int r = 0; r < end.s.num_ranks; ++r)
    state.heard.push_back({last_heard(end, window, read, r, rounds), 0});
}

}  // namespace baton::ep::per_rank
