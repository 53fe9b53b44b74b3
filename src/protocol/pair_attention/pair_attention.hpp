#pragma once
// Attention at head depth 512 or 256 by a pair of blocks: the whole choreography, without the arithmetic.
//
// It is Blackwell's: one thread issues products for two blocks and commits them in both (tcgen05 on a pair of CTAs), and O
// lies in tensor memory, where a role of its own multiplies it. Hopper has none of this; attention for it has other roles.
// Source: seeds/004 (Mojo's Depth512MBars): barriers, counts and phases.
//
// The pair takes one tile of queries through all tiles of keys. Each block keeps half of the rows of S, P and O;
// the leader (block 0) issues the matrix products for both. `Work` says what a step does, this file when it may.
//
//   role         warps of a block   does, for key tile n
//   softmax      [0, w)             reads S, writes P and the factor by which O shrinks; at the end writes O out
//   correction   [w, 2w)            from the second tile on: multiplies O by the factor
//   issuer       2w, leader only    S = Q * K; O += P * V, once a half of the output, for both blocks
//   loader       2w + 1             fetches K and V into the ring, Q with the first K
//   idle         the others         Work::idle
//
//   cell (of each block)   written by             read by              guarded by
//   slot s of the ring     copy engine            products             kv producer / consumer s (K1, K2)
//   Q, stage i             copy engine            products             kv producer of the first tile's K
//   S even, S odd          products               softmax              s_*_producer / s_*_consumer
//   P                      softmax                products             po_lo; the products after it (A3)
//   O lo, O hi             products, correction   correction, softmax  o_mma_* / po_*
//   factor                 softmax                correction           c_producer / c_consumer
//   staging (where Q was)  softmax                copy engine          o_mma_* of the last tile
//
//   for tile n           waits                                 then                          arrives
//   issuer, scores       s_x_consumer of n - 2 (A2)
//                        kv producer, each K stage (K1)        S_x (+)= Q K                  kv consumer (K2)
//                                                                                            s_x_producer (A1)
//   softmax              s_x_producer (A1)                     reads S                       s_x_consumer (A2)
//                        c_consumer of n - 1 (A7)              chooses the factor
//                        O product of n - 1, look-ahead (A3)   writes P                      po_lo (A3)
//                                                              n > 0: writes the factor      c_producer (A4)
//   correction, n > 0    c_producer (A4)                       reads the factor
//                        o_mma_lo, o_mma_hi of n - 1 (A5)      multiplies O                  po_lo, po_hi (A6)
//                                                                                            c_consumer (A7)
//   issuer, output       po_lo, then po_hi (A3, A6)
//                        kv producer, each V stage (K1)        O += P V                      kv consumer (K2)
//                                                                                            o_mma_* (A5)
//   softmax, at the end  last o_mma of the last tile (A5)      reads O, has it stored
//
// A1: the products of tile n write S before softmax reads it.
// A2: softmax has S in registers before tile n + 2 overwrites the buffer.
// A3: P is written before the products read it. They are done with it before softmax writes the next tile's:
//     in order, without look-ahead, because s_x_producer of n + 1 is committed after them; with look-ahead it is
//     committed before them, hence the wait for tile n - 1's last O product.
// A4: the factor is written before correction reads it.        A7: and read before it is overwritten.
// A5: the products of tile n grew O before correction touches it, or the end reads it.
// A6: O is multiplied for tile n before tile n's products grow it. Tile 0 has nothing to multiply: correction
//     arrives once, without a wait, so that the barrier's count is the same for every tile.
//
// Look-ahead k (0, 1, 2) issues the scores of tile n + k before the output of tile n, so that products run during
// the softmax; loads follow the same order. There are two S buffers, hence at most 2. With look-ahead the factor is
// published before P, so that correction need not wait for P's place.
// Without look-ahead S of tile n says that all products of tile n - 1 are done, which makes three waits redundant:
// the issuer's for S (A2), softmax's for the factor's place (A7), correction's for O (A5). Look-ahead 1 needs the
// last two, look-ahead 2 all three. The tests skip each wait and know which must be noticed.
//
// Start:    barriers fresh. The first tile acquires neither its K slots nor its S buffer nor, with effect, the
//           factor's place.
// Progress: loads and products use the ring in one order, so the ring may have any size from one tile's K stages
//           on. Both blocks and all roles must run the same number of tiles. A trailing cluster barrier keeps
//           the blocks alive while the pair still arrives in them.
// Checked:  checks/pair_attention.cpp, every schedule; tests/check/pair_attention_sim_test.cpp, seeded ones of larger shapes.
//           Both say the bounds and the planted bugs.
#include "protocol/pair_attention/depth512_mbars.hpp"
#include "protocol/pair_attention/feed.hpp"
#include "protocol/pair_attention/softmax.hpp"

namespace baton {

/// One warp of either block, from the barriers' birth to the end. False: a wait gave up, so did the tile.
template <class Shape, async_exec_context X, class Work>
BATON_FN bool run_pair_attention(X& x, const typename Shape::mbars& bars, int num_tiles, Work& work) {
  const int warp = x.warp();
  if (warp == 0) {
    x.each_lane([&](int lane) { bars.init(x, lane); });
    work.prologue(x);
    x.each_lane([&](int) { x.fence_mbarrier_init(); });
  }
  x.sync_cluster();
  bool done = true;
  if (warp < Shape::warps_per_role) {
    done = softmax_role<Shape>(x, bars, num_tiles, work);
  } else if (warp < 2 * Shape::warps_per_role) {
    done = correction_role<Shape>(x, bars, num_tiles, work);
  } else if (warp == Shape::issuer_warp && x.cluster_block() == leader_block) {
    done = issuer_role<Shape>(x, bars, num_tiles, work);
  } else if (warp == Shape::loader_warp) {
    done = loader_role<Shape>(x, bars, num_tiles, work);
  } else {
    done = work.idle(x);
  }
  if (!done) return false;
  x.sync_cluster();
  return true;
}

}  // namespace baton
