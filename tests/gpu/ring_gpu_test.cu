// Ring buffers on a GPU: every strategy hands every item over whole, and a reader that stops leaves a record.
#include "base/math.hpp"
#include "checks/ring_rounds.hpp"
#include "exec/site_name.hpp"
#include "protocol/ring/strategies.hpp"
#include "tests/gpu/start.cuh"
#include "tests/gpu/waiting_case.hpp"

namespace baton {
namespace {

using test::both_sides;

struct ring_params {
  checks::ring_rounds rounds{};
  std::uint32_t* out = nullptr;  // wrong words, warps that finished
};

/// Plain template arguments: see base/constant.hpp.
template <ring_strategy Name, int stages, int tiles, int readers>
struct ring_kernel {
  using strategy = strategy_of<Name, ring_shape{stages, tiles, 1, readers}>;
  static constexpr int warps = strategy::shape.block_warps() * (1 + strategy::shape.readers);

  template <async_exec_context X>
  static BATON_FN void run(X& x, const ring_params& p) {
    shared_plan block;
    const ring_buffer<strategy> ring{x, take_ring<strategy>(block, 4 * p.rounds.words)};
    ring.init(x);
    x.sync_block();
    const bool ended = checks::run_ring(
        x, ring, p.rounds, [&] { x.template fetch_add<order::relaxed, scope::device>(p.out, 1u); });
    if (ended) x.elect([&] { x.template fetch_add<order::relaxed, scope::device>(p.out + 1, 1u); });
  }
};

class ring_gpu : public test::waiting_case {
 protected:
  ring_gpu() : waiting_case{5'000'000'000} {}

  struct outcome {
    std::uint32_t wrong_words, finished_warps;
  };
  template <class Kernel>
  outcome run(int blocks, const checks::ring_rounds& rounds) {
    both_sides<std::uint32_t> out{2};
    shared_plan block;
    take_ring<typename Kernel::strategy>(block, 4 * rounds.words);
    const launch_grid grid{blocks, Kernel::warps * warp_lanes, block.bytes};
    test::start<Kernel>(grid, ring_params{rounds, out.data()}, {0, limits_});
    test::finish();
    return {out[0], out[1]};
  }
  template <ring_strategy Name, int stages, int tiles, int readers>
  void expect_whole(int blocks, const checks::ring_rounds& rounds) {
    using kernel = ring_kernel<Name, stages, tiles, readers>;
    const outcome o = run<kernel>(blocks, rounds);
    EXPECT_EQ(o.wrong_words, 0u) << name(Name) << ": " << stages << " stages, " << readers << " readers";
    EXPECT_EQ(o.finished_warps, static_cast<std::uint32_t>(blocks * kernel::warps)) << name(Name);
    EXPECT_EQ(record_->claimed, 0u) << name(record_->where);
  }
  template <ring_strategy Name>
  void expect_whole_in_all_shapes() {
    expect_whole<Name, 1, 1, 1>(8, {.items = 3000, .words = 64});
    expect_whole<Name, 2, 2, 2>(8, {.items = 3000, .words = 128});
    expect_whole<Name, 4, 1, 8>(8, {.items = 3000, .words = 256});
    expect_whole<Name, 3, 4, 7>(200, {.items = 500, .words = 96});
  }
};

TEST_F(ring_gpu, single_counter_hands_every_item_over_whole) {
  expect_whole_in_all_shapes<ring_strategy::single_counter>();
}
TEST_F(ring_gpu, split_counter_hands_every_item_over_whole) {
  expect_whole_in_all_shapes<ring_strategy::split_counter>();
}
TEST_F(ring_gpu, per_reader_flags_hand_every_item_over_whole) {
  expect_whole_in_all_shapes<ring_strategy::per_reader_flags>();
}
TEST_F(ring_gpu, mbarriers_hand_every_item_over_whole) {
  expect_whole_in_all_shapes<ring_strategy::mbarrier>();
}

TEST_F(ring_gpu, a_reader_that_stops_leaves_a_record_of_who_waits_for_what) {
  limits_.deadline_ns = 20'000'000;
  const outcome o = run<ring_kernel<ring_strategy::per_reader_flags, 2, 1, 3>>(
      1, {.items = 9, .words = 32, .reader_stops = true});
  EXPECT_EQ(o.wrong_words, 0u);
  EXPECT_EQ(o.finished_warps, 1u) << "the reader that stopped";
  EXPECT_EQ(record_->complete, 1u);
  const auto where = record_->where;
  EXPECT_TRUE(where == ring_sites{}.free || where == ring_sites{}.filled) << name(where);
  if (where == ring_sites{}.free) {
    EXPECT_EQ(record_->epoch, 1u) << "the lap";
    EXPECT_EQ(record_->expected, 1u);
    EXPECT_EQ(record_->seen, 0u);
    EXPECT_EQ(record_->lane, 0u) << "the reader";
  }
}

}  // namespace
}  // namespace baton
