#pragma once
// dispatch, layout per_rank, for many tokens: for every token t and rank d that has an expert among topk_idx[t, :]:
//   window of d [epoch & 1, my rank, t] = encode(tokens[t, :]) | topk_weights[t, :]
// and on every rank, for every token of every rank and each of its experts here:
//   tokens[row, :], scales[:, row], sources[row]; entries[rank, t, k] = {row, weight}
// Rows are grouped by local expert, then source rank, then token: the same as per_rank/dispatch.hpp leaves.
//
//   role      warps       does
//   send      senders     cast tokens into shared memory, have the copy engine store them to the ranks that want them; publish
//                         a chunk's arrival; then receive
//   index     the others  send this rank's ids; find all received tokens' rows (tile_index.hpp); then receive
//   forward   senders, or all where none sends: with two levels (two_levels.hpp), before they receive
//   receive   all         await a chunk, have the copy engine load it and store it to its rows
//
//   send      | cast, copy to peers, publish a chunk ............................. | chunk -> rows ... |
//   index     | send ids | wait ids, note own tiles | add up all tiles | number    | chunk -> rows ... |
//
// Chunks to send are dealt to the blocks, and tiles to receive too; within a block warps take the next one. All blocks must be
// on the device together (T1 of tile_index.hpp).
#include "exec/kernel.hpp"
#include "kernels/ep/per_rank/round_start.hpp"
#include "kernels/ep/per_rank_chunks/forward.hpp"
#include "kernels/ep/per_rank_chunks/list.hpp"
#include "kernels/ep/per_rank_chunks/receive.hpp"
#include "kernels/ep/per_rank_chunks/send.hpp"

namespace baton::ep::per_rank_chunks {

template <class Format>
struct dispatch_kernel {
  static constexpr kernel_bounds bounds{.max_threads = max_warps * warp_lanes, .blocks_per_sm = 1};

  /// `P`: dispatch_params, or, where some ranks are beyond the p2p group, far_params or two_level_params of what it is made of.
  template <line_exec_context X, class P>
  static BATON_FN void run(X& x, const P& p) {
    x.launch_dependents();
    const block_plan shared = dispatch_plan(p.window, p.roles, P::has_two_levels);
    if constexpr (P::has_two_levels) x.block_each(1, [&](int) { x.write(shared.next(x) + 2, 0u); });
    prepare(x, shared, p.roles);
    x.sync_block();
    x.await_dependencies();
    const auto start = per_rank::begin_round(x, &p.epochs->combined, &p.epochs->absent);
    const per_rank::round_start begun = x.broadcast(start, 0);
    if (begun.aborted()) return;
    const per_rank::member_round now = begun.next();
    clear_taken_by_combine(x, p);
    const bool sends = x.warp() < p.roles.senders;
    if (p.roles.senders > 0 && !sends) send_ids(x, p, now);
    if (sends || !p.receives) send(x, p, shared, now);
    if (p.receives) receive(x, p, shared, now);
  }

 private:
  /// Of this round: none is taken (D2).
  template <class X, class P>
  static BATON_FN void clear_taken_by_combine(X& x, const P& p) {
    if (x.block() == 0 && x.warp() == 0)
      x.elect([&] {
        x.write(&p.taken->sums_to_send, 0u);
        x.write(&p.taken->sums_to_receive, 0u);
      });
  }
  template <class X, class P>
  static BATON_FN void send_ids(X& x, const P& p, const per_rank::member_round& now) {
    const int nth = (x.warp() - p.roles.senders) * x.num_blocks() + x.block();
    for (int access = nth; access < p.window.id_accesses; access += p.roles.others * x.num_blocks()) {
      if constexpr (P::goes_by_put) {
        per_rank::store_ids(x, p, {now.epoch, now.absent | ~p.far.near_ranks()},
                            per_rank::load_ids(x, p, access));
        put_ids(x, p, now, access);
      } else {
        per_rank::store_ids(x, p, now, per_rank::load_ids(x, p, access));
      }
    }
  }

  /// One warp: a line of ids from this rank's own window, where it has stored it, to all ranks beyond the group: of lane r, to r.
  template <class X, class P>
  static BATON_FN void put_ids(X& x, const P& p, const per_rank::member_round& now, int access) {
    const std::size_t at = p.window.ids_at(p.s, now.epoch, p.s.rank, access);
    put_each_and_tell(x, p.far.far_ranks(p.s.num_ranks) & ~now.absent, [&](int to) {
      auto* word = p.window_of(to) + p.far.cells.id_word_at(p.s, p.window, now.epoch, p.s.rank, access);
      return signalled_put{p.window_of(to) + at, p.window_of(p.s.rank) + at,
                           static_cast<int>(line_access_bytes),
                           word_of_round(to, word, static_cast<std::uint32_t>(now.epoch), 1)};
    });
  }

  template <class X, class P>
  static BATON_FN void send(X& x, const P& p, const block_plan& shared, const per_rank::member_round& now) {
    share chunks{shared.next(x)};
    if (p.roles.takes_of_all) chunks.next_of_all = &p.taken->chunks_to_send;
    const chunk_sender<Format, P> sender{p, now, chunks};
    sender.send_all(x, staging{shared.room_of(x, x.warp()), p.roles.stages, 0});
  }

  template <class X, class P>
  static BATON_FN void receive(X& x, const P& p, const block_plan& shared,
                               const per_rank::member_round& now) {
    const std::uint64_t epoch = now.epoch;
    if (x.warp() >= p.roles.senders) {
      const indexer<P> index{p, shared, now, x.warp() - p.roles.senders, p.roles.others};
      if (!find_rows(x, index)) return;
    }
    if (!x.template mbarrier_wait<scope::block>(shared.known(x), parity::even,
                                                {.where = index_sites::known(), .patience = 2}))
      return;
    if constexpr (P::has_two_levels) {
      forward_and_receive(x, p, shared, epoch);
    } else {
      if (p.s.by_token()) {
        token_lister<X, P>{p, epoch}.list_all(x, shared.next(x) + 1);
        return;
      }
      x.each_lane([&](int) { x.fence_proxy_async(); });  // rooms were indexed in
      x.sync_warp();
      warp_ring<X> ring = ring_of_warp(x, p, shared);
      receive_rows(x, p, epoch, shared.next(x) + 1, ring);
    }
  }

  template <class X, class P>
  static BATON_FN warp_ring<X> ring_of_warp(X& x, const P& p, const block_plan& shared) {
    return {shared.room_of(x, x.warp()), p.window.piece_room, shared.landed(x) + x.warp() * p.roles.stages,
            p.roles.stages};
  }

  template <class X, class P>
  static BATON_FN void receive_rows(X& x, const P& p, std::uint64_t epoch, std::uint32_t* next,
                                    warp_ring<X>& ring) {
    chunk_receiver<Format::format, X, P> receiver{p, epoch, ring};
    if (!receiver.receive_all(x, next)) ring.drain(x, {.where = receive_sites::piece()});
    x.bulk_wait();
  }

  /// With two levels: senders, or all where none sends, forward first.
  template <class X, class P>
  static BATON_FN void forward_and_receive(X& x, const P& p, const block_plan& shared, std::uint64_t epoch) {
    x.each_lane([&](int) { x.fence_proxy_async(); });  // rooms were cast or indexed in
    x.sync_warp();
    warp_ring<X> ring = ring_of_warp(x, p, shared);
    if (x.warp() < (p.roles.senders > 0 ? p.roles.senders : p.roles.warps())) {
      chunk_forwarder<Format::format, X, P> forwarder{p, epoch, ring};
      if (!forwarder.forward_all(x, shared.next(x) + 2)) {
        ring.drain(x, {.where = receive_sites::piece()});
        x.bulk_wait();
        return;
      }
    }
    if (p.s.by_token())
      token_lister<X, P>{p, epoch}.list_all(x, shared.next(x) + 1);
    else
      receive_rows(x, p, epoch, shared.next(x) + 1, ring);
  }
};

}  // namespace baton::ep::per_rank_chunks
