#pragma once
// Which chunks of tokens have arrived: a receiver's wait for their words, before it looks at what they tell of.
#include "base/bits.hpp"
#include "kernels/ep/per_rank_chunks/two_levels.hpp"
#include "protocol/arrival.hpp"

namespace baton::ep::per_rank_chunks {

struct receive_sites {
  static consteval site chunk() { return "dispatch.chunk"; }
  static consteval site damaged() { return "dispatch.damaged_chunk"; }
  static consteval site row() { return "dispatch.damaged_row"; }
  static consteval site piece() { return "dispatch.piece"; }
};

template <class P>
BATON_FN std::uint64_t* word_of(const P& p, std::uint64_t epoch, int source, int chunk) {
  return reinterpret_cast<std::uint64_t*>(p.window_of(p.s.rank) +
                                          p.window.token_word_at(p.s, epoch, source, chunk));
}
template <class P>
BATON_FN wait_site chunk_site(const P& p, std::uint64_t epoch, int source) {
  wait_site at{.where = receive_sites::chunk(), .peer = source, .epoch = static_cast<std::uint32_t>(epoch)};
  if constexpr (P::has_two_levels) {
    if (p.far.near.has(source)) return at;
    at.patience = 2;  // who forwards it may wait for the source, and reports first
    if (!forwards_for(p, source)) at.peer = p.forwarder_here(source);
  }
  return at;
}

/// The warp: until each lane's word (null: none) is here and says `tokens` (E1). False: gave up, or refused one.
template <class X>
BATON_FN bool await_chunks(X& x, const typename X::template lanes<std::uint64_t*>& words,
                           const typename X::template lanes<int>& tokens, wait_site at) {
  typename X::template lanes<std::uint64_t> seen;
  typename X::template lanes<bool> sound;
  if (!await<epoch_arrival>(x, words, warp_lanes, at, seen)) return false;
  x.each_lane([&](int lane) {
    sound[lane] = words[lane] == nullptr || epoch_arrival::count(seen[lane]) == tokens[lane];
  });
  if (const std::uint32_t all = x.ballot(sound); all != 0xffffffffu) {
    const int lane = lowest_bit(~all), told = epoch_arrival::count(x.broadcast(seen, lane));
    at.where = receive_sites::damaged();
    at.expected = static_cast<std::uint64_t>(x.broadcast(tokens, lane));
    x.elect([&] { x.refuse(at, static_cast<std::uint64_t>(told)); });
    return false;
  }
  x.each_lane([&](int) { x.fence_proxy_async_global(); });
  return true;
}

/// Whether there are the rows of lanes that have one. If not, refuses the first.
template <class X>
BATON_FN bool are_rows(X& x, const any_dispatch_params& p, std::uint64_t epoch, int source,
                       const typename X::template lanes<std::int32_t>& rows,
                       const typename X::template lanes<bool>& has_row) {
  typename X::template lanes<bool> sound;
  x.each_lane([&](int lane) {
    sound[lane] = !has_row[lane] ||
                  static_cast<std::uint32_t>(rows[lane]) < static_cast<std::uint32_t>(p.window.max_rows);
  });
  const std::uint32_t all = x.ballot(sound);
  if (all == 0xffffffffu) return true;
  const int row = x.broadcast(rows, lowest_bit(~all));
  x.elect([&] {
    x.refuse({.where = receive_sites::row(),
              .peer = source,
              .epoch = static_cast<std::uint32_t>(epoch),
              .expected = static_cast<std::uint64_t>(p.window.max_rows)},
             static_cast<std::uint32_t>(row));
  });
  return false;
}

}  // namespace baton::ep::per_rank_chunks
