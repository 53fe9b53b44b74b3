#pragma once
// The mbarriers of one block of depth-512 and depth-256 pair-CTA attention: where each lies, how many arrivals
// complete it, and the pipelines made of them. How the roles use them: pair_attention.hpp.
//
// depth 512 (split_o): the output is two halves, O_lo and O_hi, with a barrier pair each. depth 256: one O,
// which the O_lo barriers serve, and no O_hi ones.
//
//   barrier              index        count  arrivals of one phase                               waited for by
//                        512   256
//   po_lo                0     0      512    softmax of both blocks (P written) and correction   issuer
//                                            of both (O_lo rescaled), in the leader
//   po_hi                1     -      256    correction of both blocks (O_hi rescaled), leader   issuer
//   s_even_consumer      2     1      256    softmax of both blocks (S in registers), leader     issuer
//   s_odd_consumer       3     2      256    the same                                            issuer
//   c_producer           4     3      128    softmax of the block (factor written)               correction
//   c_consumer           5     4      128    correction of the block (factor read)               softmax
//   s_even_producer      6     5      1      commit in both blocks (S complete)                  softmax
//   s_odd_producer       7     6      1      the same                                            softmax
//   o_mma_lo             8     7      1      commit in both blocks (P * V_lo complete)           correction
//   o_mma_hi             9     -      1      the same for V_hi                                   correction, epilogue
//   kv producer s        10+s  8+s    1      the leader's expect, then the bytes of both blocks  issuer
//   kv consumer s        +n    +n     1      commit in both blocks (slot read)                   both loaders
//
// Why the counts: a role is 128 threads (4 warps) a block. PO_lo gathers two roles of two blocks, 4 * 128; PO_hi
// and S one role of two blocks, 2 * 128; C one role of its own block. Commits and expects are made by one
// thread. Counts are in arrivals of `warps_per_role` warps with `arrivals_per_warp` each: 4 and 32 give the
// documented numbers; 4 and 1 is one arrival a warp, the cheap form; 1 and 1 is what an exploration wants.
//
// Start: init() by one warp of each block, lane i for barrier i, then fence_mbarrier_init and sync_cluster.
#include "base/macros.hpp"
#include "exec/mbarrier.hpp"
#include "protocol/role_pipeline.hpp"
#include "protocol/staged_pipeline.hpp"

namespace baton {

template <int num_kv_stages, bool split_o = true, int warps_per_role = 4, int arrivals_per_warp = warp_lanes>
struct depth512_mbars {
  mbarrier* mbar_base;

  static constexpr int po_lo_offset = 0;
  static constexpr int po_hi_offset = po_lo_offset + 1;  // split_o only
  static constexpr int s_even_consumer_offset = po_lo_offset + 1 + (split_o ? 1 : 0);
  static constexpr int s_odd_consumer_offset = s_even_consumer_offset + 1;
  static constexpr int c_producer_offset = s_odd_consumer_offset + 1;
  static constexpr int c_consumer_offset = c_producer_offset + 1;
  static constexpr int s_even_producer_offset = c_consumer_offset + 1;
  static constexpr int s_odd_producer_offset = s_even_producer_offset + 1;
  static constexpr int o_mma_lo_offset = s_odd_producer_offset + 1;
  static constexpr int o_mma_hi_offset = o_mma_lo_offset + 1;  // split_o only
  static constexpr int num_fixed = o_mma_lo_offset + 1 + (split_o ? 1 : 0);
  static constexpr int num_high_count_barriers = 5 + (split_o ? 1 : 0);  // they come first
  static constexpr int kv_offset = num_fixed;
  static constexpr int kv_barriers = 2 * num_kv_stages;
  static constexpr int size = num_fixed + kv_barriers;
  static_assert(num_kv_stages >= 1 && size <= warp_lanes, "one wave of one warp initialises all barriers");

  using s_pipeline_producer = role_pipeline<1, true, 1, 1, 2>;
  using s_pipeline_consumer = role_pipeline<1, false>;
  using kv_pipeline = staged_pipeline<num_kv_stages, 1, 2>;

  /// Arrivals of one role of one block.
  static constexpr int role_arrivals = warps_per_role * arrivals_per_warp;

  static constexpr std::uint32_t num_mbars() { return static_cast<std::uint32_t>(size); }
  /// Arrivals that complete a phase of the barrier at `offset`.
  static constexpr int count(int offset) {
    if (offset >= num_high_count_barriers) return 1;
    if (offset == po_lo_offset) return 4 * role_arrivals;
    return offset >= c_producer_offset ? role_arrivals : 2 * role_arrivals;
  }

  /// One call a lane of one warp of each block.
  template <async_exec_context X>
  BATON_FN void init(X& x, int lane) const {
    if (lane < size) x.mbarrier_init(mbar_base + lane, count(lane));
  }

  /// Issuer: acquire waits until the buffer is free, commit_mma says that S is written.
  BATON_FN s_pipeline_producer producer_s_even() const {
    return {mbar_base + s_even_producer_offset, mbar_base + s_even_consumer_offset};
  }
  BATON_FN s_pipeline_producer producer_s_odd() const {
    return {mbar_base + s_odd_producer_offset, mbar_base + s_odd_consumer_offset};
  }
  /// Softmax: wait for S; release, in the leader, says that it is in registers.
  BATON_FN s_pipeline_consumer consumer_s_even() const {
    return {mbar_base + s_even_producer_offset, mbar_base + s_even_consumer_offset, in_leader};
  }
  BATON_FN s_pipeline_consumer consumer_s_odd() const {
    return {mbar_base + s_odd_producer_offset, mbar_base + s_odd_consumer_offset, in_leader};
  }
  /// Softmax: acquire waits until the place of the factors is free, commit says that they are written.
  BATON_FN role_pipeline<1> producer_c() const {
    return {mbar_base + c_producer_offset, mbar_base + c_consumer_offset, in_own_block};
  }
  /// Correction: wait for the factors; release says that they are read.
  BATON_FN role_pipeline<1, false> consumer_c() const {
    return {mbar_base + c_producer_offset, mbar_base + c_consumer_offset, in_own_block};
  }
  /// Issuer, P * V_lo: acquire waits for P and the rescaled O_lo, from the first phase on; commit_mma says that
  /// O_lo has grown.
  BATON_FN role_pipeline<1, true, 1, 1, 2> producer_o_lo() const {
    return {mbar_base + o_mma_lo_offset, mbar_base + po_lo_offset, blocks_at_first};
  }
  BATON_FN role_pipeline<1, true, 1, 1, 2> producer_o_hi() const requires split_o {
    return {mbar_base + o_mma_hi_offset, mbar_base + po_hi_offset, blocks_at_first};
  }
  /// Correction: wait until O_lo has grown; release, in the leader, says that it is rescaled.
  BATON_FN role_pipeline<1, false> consumer_o_lo() const {
    return {mbar_base + o_mma_lo_offset, mbar_base + po_lo_offset, in_leader};
  }
  BATON_FN role_pipeline<1, false> consumer_o_hi() const requires split_o {
    return {mbar_base + o_mma_hi_offset, mbar_base + po_hi_offset, in_leader};
  }
  /// Softmax arrives here, in the leader, when P is written; correction does through consumer_o_lo().
  BATON_FN mbarrier* po_lo_mbar() const { return mbar_base + po_lo_offset; }
  BATON_FN mbarrier* po_hi_mbar() const requires split_o { return mbar_base + po_hi_offset; }
  /// num_kv_stages producer barriers, then as many consumer barriers.
  BATON_FN mbarrier* get_kv_mbars() const { return mbar_base + kv_offset; }
  BATON_FN kv_pipeline kv() const { return kv_pipeline{get_kv_mbars()}; }

 private:
  static constexpr pipeline_arrivals in_leader{arrivals_per_warp, released_in::leader, parity::odd};
  static constexpr pipeline_arrivals in_own_block{arrivals_per_warp, released_in::own_block, parity::odd};
  static constexpr pipeline_arrivals blocks_at_first{1, released_in::own_block, parity::even};
};

}  // namespace baton
