#pragma once
// O = softmax(scale * Q * K^T) * V, row by row of what each row sees, on tensor cores, warp-specialised: bf16 or fp16 in and out,
// sums in fp32, sequences of any lengths, grouped heads.
//
//   role       groups     registers  takes          gives                    work per tile of keys
//   loaders    1 (a warp  24         free slots     filled slots             K: 64 keys of the block (128 of narrow heads)
//              each)      24         free slots     filled slots             V: 256 columns of all keys (128)
//   clearer    (a warp)   24         landed V       filled slots             keys of the first and last tile that nobody sees
//   consumer   2          240        filled slots   free slots; in pairs     64 rows: scores, softmax, P * V
//                                                   P and rows' largest
//
//   loaders      | Q, K 0 | K 1 | V 0 | K 2 | V 1 | ...  V n        tiles from the first that some row sees to the last
//   consumer 0   | Q K 0 | Q K 1 . P V 0 | Q K 2 . P V 1 | ... P V n | O out
//   consumer 1      the same, of the 64 rows below; its products fill the time of the other's softmax
//
// Head dimension 256: a block makes 128 rows (alone.hpp). 64 and 128: the same with tiles of 128 keys; columns that a head of 64
// does not have are zeros. 512: a pair of blocks makes 128 rows; each scores half of a tile's keys and has half of O's columns,
// so nothing is computed twice (paired.hpp; protocol/row_exchange.hpp). Hand-over of slots: protocol/staged_pipeline.hpp. A wait
// that gives up lets its group go on to its end, as products in flight allow no other way out without costing registers; what it
// makes is stored nowhere.
#include "base/constant.hpp"
#include "exec/kernel.hpp"
#include "kernels/attention/alone.hpp"
#include "kernels/attention/load_pages.hpp"
#include "kernels/attention/paired.hpp"

namespace baton::attention_kernels {

template <config C, class X>
class block_role {
  static_assert(why_not<C>() == nullptr);
  using plan = block_plan<C>;
  using pipeline = slot_pipeline<C>;
  using loader = std::conditional_t<C.paged, load_pages_role<C, X>, load_role<C, X>>;
  using consume_role = std::conditional_t<C.paired(), paired_role<C, X>, alone_role<C, X>>;

 public:
  BATON_FN block_role(X& x, const kernel_params<C>& p) : x_{x}, p_{p} {}

  BATON_FN void run() {
    x_.launch_dependents();
    prepare_barriers();
    x_.await_dependencies();  // nobody touches the operands earlier
    const item w = item_of<C>(x_, p_, x_.block() / C.blocks());
    if (w.rows <= 0) return;  // both blocks of a pair
    if (x_.warp() == 0) x_.elect([&] { keep_item<C>(x_, w); });
    x_.sync_block();
    if constexpr (C.first_slots() > 0) {
      if (w.tiles > 0 && x_.warp() == 0) load_first<C>(x_, p_, w);
    }
    if constexpr (C.paired())
      x_.meet_cluster();  // barriers are there, and nothing else is asked of the other block
    const int group = x_.group();
    if (group < loader_groups) {
      x_.template leave_registers<C.loader_registers>();
      if (w.tiles > 0) run_warp(known_to_all(x_, x_.warp()));
    } else {
      x_.template take_registers<C.consumer_registers()>();
      consume(w);
    }
    x_.meet_cluster();  // nobody leaves while others store here
  }

 private:
  BATON_FN void prepare_barriers() {
    x_.block_each(pipeline::num_mbars, [&](int i) {
      x_.mbarrier_init(plan{}.slot_barriers(x_) + i, i < pipeline::total_stages ? 1 : consumer_warps);
      x_.fence_mbarrier_init();
    });
    x_.block_each(1, [&](int) {
      x_.write(plan{}.late(x_), 0u);
      for (int i = 0; i < C.q_pieces(); ++i) x_.mbarrier_init(plan{}.q_filled(x_) + i, 1);
      for (int i = 0; i < 2 * C.v_slots(); ++i) x_.mbarrier_init(plan{}.landed(x_) + i, 1);
      for (int g = 0; g < consumer_groups && C.paired(); ++g) {
        x_.mbarrier_init(plan{}.p_filled(x_) + g, 1);
        x_.mbarrier_init(plan{}.p_free(x_) + g, group_warps);
      }
      for (int i = 0; i < 2 * consumer_warps && C.paired(); ++i)
        x_.mbarrier_init(plan{}.row_values_filled(x_) + i, 1);
      x_.fence_mbarrier_init();
    });
  }
  BATON_FN void run_warp(int warp) {
    if (warp == 0) loader{x_, p_}.run_k();
    if (warp == 1) loader{x_, p_}.run_v();
    if (warp == 2) clear_role<C, X>{x_}.run();
  }
  BATON_FN void consume(const item& w) {
    const consumer_item own = consumer_item_of(x_, w);
    if (own.tiles > 0) return consume_role{x_, p_, own}.run();
    softmax<C, X> nothing{x_, p_, own};
    typename X::row_values sums = nothing.sums();
    nothing.finish(sums);
    store_role<C, X> store{x_, p_, own};
    store.store_zeros();
    store.store_lse(sums);
  }

  X& x_;
  const kernel_params<C>& p_;
};

/// `Config` is constant<c>; see base/constant.hpp. A block, or a pair, for each item.
template <class Config>
struct attention_kernel {
  static constexpr config c = Config::value;
  static constexpr kernel_bounds bounds{
      .max_threads = num_warps * warp_lanes, .blocks_per_sm = 1, .cluster = c.blocks(), .in_groups = true};
  static constexpr std::uint32_t shared_bytes = block_plan<c>{}.bytes;

  template <group_exec_context X>
  static BATON_FN void run(X& x, const kernel_params<c>& p) {
    block_role<c, X>{x, p}.run();
  }
};

}  // namespace baton::attention_kernels
