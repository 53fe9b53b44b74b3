#pragma once
// What the two waiting kernels have in common: how they begin, and how block 0 collects arrival words.
#include "exec/exec.hpp"
#include "kernels/ep/per_expert/round_start.hpp"
#include "protocol/arrival.hpp"
#include "protocol/gate.hpp"

namespace baton::ep {

static_assert(max_tokens_per_rank <= static_cast<int>(arrival_word::most));

/// The round that begins, after `completed` others. False in all warps of the block: nothing is to be done.
template <exec_context X>
BATON_FN bool begin_wait(X& x, const std::uint32_t* completed, const waiting_plan& shared,
                         std::uint32_t& epoch) {
  const round_start now = x.from_one([&] { return read_round_start(x, completed); });
  epoch = now.epoch;
  x.block_each(1, [&](int) {
    x.write(shared.failed(x), 0);
    x.write(shared.shut(x), 0);
    x.write(shared.aborted(x), now.aborted);
  });
  x.sync_block();
  return goes_on(x, shared.aborted(x));
}

/// Which words block 0 waits for.
struct arrival_set {
  int pairs;  // pair i is rank i % num_ranks's word for an expert
  int num_ranks;
  int capacity;
  std::uint32_t epoch;
  site where;
  site refused = {};  // a count is not the expected one
};

/// The warps of block 0 wait for the words of all pairs that `word` is not null for, 32 a warp at a time, and
/// note the counts. `expected`: the count that a pair must have, or negative. False on all warps: some wait gave up, or
/// some count was refused.
template <class Arrival, exec_context X, class Word, class Expected, class Note>
BATON_FN bool collect_arrivals(X& x, const arrival_set& set, const waiting_plan& shared, Word word,
                               Expected expected, Note note) {
  const auto fail = [&] {  // several warps may, and nothing orders them
    x.template fetch_add<order::relaxed, scope::block>(shared.failed(x), 1u);
  };
  for (int begin = x.warp() * warp_lanes; begin < set.pairs; begin += x.num_warps() * warp_lanes) {
    typename X::template lanes<std::uint64_t*> words;
    typename X::template lanes<std::uint64_t> seen;
    typename X::template lanes<int> wanted;  // read before the wait, not after it
    x.each_lane([&](int lane) {
      words[lane] = begin + lane < set.pairs ? word(begin + lane) : nullptr;
      wanted[lane] = words[lane] != nullptr ? expected(begin + lane) : -1;
    });
    const wait_site at{
        .where = set.where, .peer = begin % set.num_ranks, .epoch = set.epoch, .peer_modulus = set.num_ranks};
    if (!await<Arrival>(x, words, set.capacity, at, seen)) {
      x.elect(fail);
      break;
    }
    x.each_lane([&](int lane) {
      if (words[lane] == nullptr) return;
      const int count = Arrival::count(seen[lane]);
      if (wanted[lane] >= 0 && count != wanted[lane]) {
        x.refuse({.where = set.refused,
                  .peer = (begin + lane) % set.num_ranks,
                  .epoch = set.epoch,
                  .expected = static_cast<std::uint64_t>(wanted[lane])},
                 static_cast<std::uint64_t>(count));
        fail();
      }
      note(begin + lane, count);
    });
  }
  x.sync_block();
  return x.from_one([&] { return x.read(shared.failed(x)); }) == 0;
}

/// All warps of a block pass the gate. False on all: the wait gave up. A cell of its own, because block 0 may still be
/// reading whether its words have come.
template <exec_context X>
BATON_FN bool pass_gate_together(X& x, const waiting_plan& shared, const gate_cells& gate, site where,
                                 std::uint32_t epoch) {
  if (x.warp() == 0 && !pass_gate(x, gate, where, epoch)) {
    x.elect([&] { x.write(shared.shut(x), 1); });
  }
  x.sync_block();
  return x.from_one([&] { return x.read(shared.shut(x)); }) == 0;
}

}  // namespace baton::ep
