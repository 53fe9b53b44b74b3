// The choreography of pair attention on tokens, on a GPU: real clusters, real mbarriers, a hundred tiles, many pairs at
// once. The tensor core is a warp as elsewhere. Bytes cannot be credited to another block's barrier on this hardware, so
// the leader's loader makes its arrival once the follower's piece is there too.
#include <cooperative_groups.h>

#include "checks/pair_attention_tokens.hpp"
#include "exec/site_name.hpp"
#include "protocol/pair_attention/pair_attention.hpp"
#include "tests/gpu/gpu_case.hpp"
#include "tests/gpu/start.cuh"

namespace baton {
namespace {

struct gpu_judge {
  std::uint32_t* wrong;
  BATON_FN void operator()(bool holds, const char*) const {
    if (!holds) atomicAdd(wrong, 1u);
  }
};

template <class Shape, class X>
class gpu_tokens : public checks::pair_attention_tokens<Shape, X, gpu_judge> {
 public:
  using base = checks::pair_attention_tokens<Shape, X, gpu_judge>;
  using cells = typename base::cells;
  using base::base;

  BATON_FN void prologue(X& x) {
    base::prologue(x);
    if (this->block_ != leader_block) return;
    x.elect([&] {
      auto* other = cooperative_groups::this_cluster().map_shared_rank(x.shared(), 1);
      x.write(this->c_.shared_of(1), other);
      for (int slot = 0; slot < Shape::kv_stages; ++slot) x.mbarrier_init(landed(x) + slot, 1);
    });
  }
  BATON_FN void load(X& x, const kv_piece& piece, int slot, mbarrier* filled) {
    const vec16* from = piece.half < 0
                            ? this->c_.key(piece.tile, this->block_, piece.stage)
                            : this->c_.value(piece.tile, this->block_, base::part(piece.half, piece.stage));
    x.elect([&] {
      x.write(cells::slots(x.shared()) + slot, x.read(from));
      if (piece.with_q)
        x.write(cells::q(x.shared()) + piece.stage, x.read(this->c_.query(this->block_, piece.stage)));
      if (this->block_ != leader_block) x.mbarrier_arrive_at(landed(x) + slot, leader_block, 1);
    });
    const parity lap = parity_of(static_cast<std::uint32_t>(num_loads_++ / Shape::kv_stages));
    if (this->block_ != leader_block) return;
    if (!x.template mbarrier_wait<scope::cluster>(landed(x) + slot, lap, wait_site{.where = "test"})) return;
    x.elect([&] { x.mbarrier_arrive_expect(filled, 0); });
  }

  static constexpr std::size_t shared_bytes(int tiles) {
    return cells::shared_bytes(tiles) + Shape::kv_stages * sizeof(mbarrier);
  }

 private:
  BATON_FN mbarrier* landed(X& x) const {
    return reinterpret_cast<mbarrier*>(x.shared() + cells::shared_bytes(this->num_tiles_));
  }
  int num_loads_ = 0;
};

template <class Shape>
struct attention_params {
  checks::pair_attention_cells<Shape>* pairs = nullptr;
  std::uint32_t* wrong = nullptr;
  int tiles = 0;
};

template <class Shape>
struct pairs_of_blocks {
  static constexpr kernel_bounds bounds{.max_threads = 384, .cluster = 2};

  template <class X>
  static BATON_FN void run(X& x, const attention_params<Shape>& p) {
    gpu_judge judge{p.wrong};
    gpu_tokens<Shape, X> work{x, p.pairs[x.block() / 2], p.tiles, judge};
    const typename Shape::mbars bars{checks::pair_attention_cells<Shape>::barriers(x.shared())};
    run_pair_attention<Shape>(x, bars, p.tiles, work);
  }
};

template <class Shape>
class pair_attention_gpu : public test::gpu_case {
 protected:
  static constexpr int pairs = 64;
  static constexpr int tiles = 100;

  static void run_all() {
    using cells = checks::pair_attention_cells<Shape>;
    std::vector<void*> memory;
    const auto allocate = [&]<class T>(std::size_t count, const char*) {
      void* p = nullptr;
      test::must(cudaHostAlloc(&p, count * sizeof(T), cudaHostAllocMapped), "allocating cells");
      std::memset(p, 0, count * sizeof(T));
      memory.push_back(p);
      return static_cast<T*>(p);
    };
    test::both_sides<cells> all{static_cast<std::size_t>(pairs)};
    for (std::size_t i = 0; i < pairs; ++i) all[i] = cells::make(tiles, allocate);
    test::both_sides<std::uint32_t> wrong{1}, abort{1};
    test::both_sides<stuck_record> record{1};
    const attention_params<Shape> p{all.data(), wrong.data(), tiles};
    const auto bytes = static_cast<std::size_t>(gpu_tokens<Shape, async_gpu<2>>::shared_bytes(tiles));
    const launch_grid grid{2 * pairs, (Shape::loader_warp + 2) * warp_lanes, bytes};
    const wait_limits limits{2'000'000'000, abort.data(), record.data()};
    test::start<pairs_of_blocks<Shape>>(grid, p, {0, limits});
    test::finish();
    EXPECT_EQ(record[0].claimed, 0u) << "stuck at " << name(record[0].where);
    EXPECT_EQ(wrong[0], 0u) << "stale tokens";
    for (std::size_t i = 0; i < pairs; ++i) EXPECT_TRUE(cells::stored(all[i])) << "pair " << i;
    for (void* one : memory) cudaFreeHost(one);
  }
};

// Slots; depth 512 or 256; look-ahead; warps of a role; arrivals of a warp.
using shapes =
    testing::Types<pair_attention_shape<4, true, 0>, pair_attention_shape<4, true, 1, 4, 1>,
                   pair_attention_shape<11, true, 2, 4, 1>, pair_attention_shape<8, false, 0>,
                   pair_attention_shape<2, false, 1, 4, 1>, pair_attention_shape<12, false, 2, 1, 1>>;
TYPED_TEST_SUITE(pair_attention_gpu, shapes);

TYPED_TEST(pair_attention_gpu, ends_without_a_stale_token_on_many_pairs_at_once) {
  for (int launch = 0; launch < 3; ++launch) this->run_all();
}

}  // namespace
}  // namespace baton
