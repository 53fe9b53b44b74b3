#pragma once
// A gate between block 0 and all blocks of one kernel: block 0 prepares something, opens; everybody passes,
// leaves; the last one out closes it for the next launch.
//
//   cell       starts   becomes                             by
//   ready      0        1: what block 0 wrote is visible    block 0, store release, device
//                       0: closed again                     the last block out
//   departed   0        +1 for each block that leaves       finish (completion.hpp)
//                       0                                   the last block out
//
// G1: block 0's writes before open() happen before every block's accesses after pass().
// G2: every block's accesses before leave() happen before what the last one out does after it.
// Start:    both 0; the launch boundary orders the closing stores before the next launch's first load.
// Progress: block 0 opens without waiting for any block of its kernel, so any grid size works, one included,
//           as long as block 0 is resident; hardware starts it first.
#include <cstdint>

#include "base/macros.hpp"
#include "exec/exec.hpp"
#include "protocol/completion.hpp"

namespace baton {

struct gate_cells {
  std::int32_t* ready;
  std::int32_t* departed;
};

/// One lane of block 0.
template <exec_context X>
BATON_FN void open_gate(X& x, const gate_cells& gate) {
  x.template store<order::release, scope::device>(reinterpret_cast<std::uint32_t*>(gate.ready), 1u);
}

/// One warp of each block; follow with sync_block to let the others through. False: gave up.
template <exec_context X>
BATON_FN bool pass_gate(X& x, const gate_cells& gate, site where, std::uint32_t epoch) {
  typename X::template lanes<std::uint32_t*> words;
  typename X::template lanes<std::uint32_t> seen;
  x.each_lane(
      [&](int lane) { words[lane] = lane == 0 ? reinterpret_cast<std::uint32_t*>(gate.ready) : nullptr; });
  const auto is_open = [](int, std::uint32_t value) { return value == 1u; };
  const wait_site at{.where = where, .epoch = epoch, .expected = 1, .patience = 2};
  return x.template wait<order::acquire, scope::device>(words, is_open, at, seen);
}

/// One lane of each block, after a sync_block. True in the last block out, which has closed the gate.
template <exec_context X>
BATON_FN bool leave_gate(X& x, const gate_cells& gate) {
  if (!finish(x, gate.departed, 1, x.num_blocks())) return false;
  x.template store<order::relaxed, scope::device>(reinterpret_cast<std::uint32_t*>(gate.ready), 0u);
  return true;
}

}  // namespace baton
