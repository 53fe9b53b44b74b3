#pragma once
// O = softmax(scale * Q * K^T) * V of few rows a sequence, keys in pages: bound by memory, so keys are read once, by as many
// blocks as there are, and what these made of them is put together in the same launch. q and O are bf16 or fp16, keys and values
// the same or e4m3, sums fp32. All heads that share a head of K are rows of one item, with all tokens that fit: up to 64 rows, of
// e4m3 16.
//
// wgmma takes 64 rows or none: so keys are the rows of K * Q^T, and columns of V those of V^T * P^T, whose columns are the rows
// of the item: 8 or 32 a group (group_products.hpp). Of e4m3 the same by mma, for both groups together, as keys become fp16 on
// their way into registers (e4m3_products.hpp).
//
//   role       groups     registers  takes           gives            work per tile of 64 keys, of e4m3 of 128
//   loader     1 (1 warp) 56 or 40   free slots      filled slots     K, then V: 128 KiB at head dimension 512
//   Q loader   (1 warp)   56 or 40   free Q          filled Q         once an item
//   consumer   2          224 or 232 filled slots    free slots       half of the rows, if there are as many; of e4m3 all rows
//                                                                     of 16 keys a warp, then an eighth of O's columns
//
//   loader       | K 0 | V 0 | K 1 | V 1 | ...            the next item's keys follow this one's
//   consumer     | K Q 0 | softmax | V P 0 | K Q 1 ...    | merge (merge.hpp) | the next item
//
// A team is a cluster of 1 to 8 blocks. Who does what: items.hpp; hand-overs: protocol/staged_pipeline.hpp, team_rows.hpp,
// given_rows.hpp, signed_parts.hpp. A wait of a consumer or the loader that gives up lets it go on to its end; what is made is
// stored nowhere.
#include "base/constant.hpp"
#include "exec/kernel.hpp"
#include "kernels/decode_attention/load.hpp"
#include "kernels/decode_attention/merge.hpp"

namespace baton::decode_attention {

template <config C, class X>
class block_role {
  static_assert(why_not<C>() == nullptr);
  using plan = block_plan<C>;
  using pipeline = slot_pipeline<C>;

 public:
  BATON_FN block_role(X& x, const params& p) : x_{x}, p_{p} {}

  BATON_FN void run() {
    x_.launch_dependents();
    prepare_barriers();
    const int group = x_.group();
    if (x_.warp() == 0) x_.elect([&] { x_.prefetch(p_.q), x_.prefetch(p_.k), x_.prefetch(p_.v); });
    if (group >= loader_groups) clear_q(group - loader_groups);
    x_.sync_cluster();  // barriers are there: while the kernel before this one ends
    first_part first{{x_, p_}};
    if (x_.warp() == 0) deal(first);
    if (x_.warp() != 0) x_.await_dependencies();  // nobody touches the operands earlier
    x_.sync_block();
    if (group < loader_groups) {
      x_.template leave_registers<C.loader_registers>();
      const int warp = known_to_all(x_, x_.warp());
      if (warp == 0) {
        if (!first.is_known) first.items.start(), first.is_there = first.items.next();
        load_role<C, X>{x_, p_}.run(first.items, first.is_there);
      }
      if (warp == 1) load_q_role<C, X>{x_, p_}.run();
    } else {
      x_.template take_registers<C.consumer_registers()>();
      consume(group - loader_groups);
    }
    x_.meet_cluster();  // nobody leaves while one who gave up may come to read or store here
  }

 private:
  BATON_FN void prepare_barriers() {
    x_.block_each(pipeline::num_mbars, [&](int i) {
      x_.mbarrier_init(plan{}.slot_barriers(x_) + i, i < pipeline::total_stages ? 1 : consumer_warps);
      x_.fence_mbarrier_init();
    });
    x_.block_each(1, [&](int) {
      x_.write(plan{}.late(x_), 0u);
      x_.mbarrier_init(plan{}.q_filled(x_), 1);
      x_.mbarrier_init(plan{}.q_free(x_), consumer_warps);
      using rows = std::conditional_t<C.gives_rows(), given_rows<X>, team_rows<X>>;
      rows::prepare(x_, plan{}.rows_there(x_), plan{}.rows_taken(x_), C.row_warps(), consumer_warps);
      x_.fence_mbarrier_init();
    });
  }
  /// What the loading warp walks to before others know the work.
  struct first_part {
    walk<C, X> items;
    bool is_known = false, is_there = false;
  };
  /// Lengths are looked at while the kernel before this one ends, and again behind it: if they are what they were, so is what
  /// they were dealt by, and the first part, to which the loading warp has walked by then.
  BATON_FN void deal(first_part& first) {
    const int team = shared_by_team(x_, x_.block()), teams = shared_by_team(x_, x_.num_blocks());
    dealer<X, C.e4m3> early{x_, p_, C.spare_slots(), true};
    dealt_work w{};
    const bool is_dealt = early.deal_evenly(team, teams, w);
    if (is_dealt) keep(w);
    if constexpr (!C.keeps_parts()) {
      first.is_known = is_dealt && early.knows_all();
      if (first.is_known) {
        x_.sync_warp();  // what is dealt lies in shared memory
        first.items.start();
        first.is_there = first.items.next_by([&](const std::int32_t* at) { return early.seen(at); });
      }
    }
    x_.await_dependencies();  // of who deals out
    if (is_dealt && early.still_right()) return;
    first.is_known = false;
    dealer<X, C.e4m3> now{x_, p_, C.spare_slots(), false};
    if (!is_dealt || !now.agrees(early)) keep(now.deal(team, teams));
  }
  BATON_FN void keep(const dealt_work& w) {
    x_.elect([&] {
      const auto* from = reinterpret_cast<const std::int32_t*>(&w);
      auto* to = reinterpret_cast<std::int32_t*>(plan{}.dealt(x_));
      for (int i = 0; i < static_cast<int>(sizeof w / 4); ++i) x_.write(to + i, from[i]);
    });
  }
  /// Rows of Q that no box fills are multiplied, too: as zeros.
  BATON_FN void clear_q(int group) {
    const int warp = group * group_warps + x_.warp_of_group();
    x_.each_lane([&](int lane) {
      for (int i = warp * warp_lanes + lane; i < C.chunks() * C.rows * tile<C>::chunks;
           i += consumer_warps * warp_lanes) {
        const int row = i / tile<C>::chunks;
        if (row % C.rows >= p_.box_rows) x_.write(q_tile<C>(x_, 0).chunk(row, i % tile<C>::chunks), vec16{});
      }
      x_.fence_proxy_async();
    });
  }
  BATON_FN void consume(int group) {
    if constexpr (C.row_groups() == 1) group = 0;  // of rows
    walk<C, X> items{x_, p_};
    items.start();
    consume_role<C, X> consumer{x_, p_, items, group};
    merge_role<C, X> merge{x_, p_, items, group};
    while (items.next()) {
      merge.begin();
      typename consume_role<C, X>::sums o[C.sums()];
      column_softmax<C, X> softmax{x_, p_.scale, group};
      consumer.run(o, softmax);
      merge.run(o, softmax);
    }
    merge.end();
    report_if_late<C>(x_);
  }

  X& x_;
  const params& p_;
};

/// `Config` is constant<c>; see base/constant.hpp. Clusters of any size that has room; as many as work at a time.
template <class Config>
struct decode_kernel {
  static constexpr config c = Config::value;
  static constexpr kernel_bounds bounds{
      .max_threads = num_warps * warp_lanes, .blocks_per_sm = 1, .cluster = 0, .in_groups = true};
  static constexpr std::uint32_t shared_bytes = block_plan<c>{}.bytes;

  template <group_exec_context X>
  requires(!c.e4m3 || narrow_exec_context<X>) static BATON_FN void run(X& x, const params& p) {
    block_role<c, X>{x, p}.run();
  }
};

}  // namespace baton::decode_attention
