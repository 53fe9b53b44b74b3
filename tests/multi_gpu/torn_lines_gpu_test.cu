// The look for torn lines on GPUs: between two of them, on one of them, and with a kernel that tears its lines.
#include <gtest/gtest.h>

#include <algorithm>

#include "device/entry.cuh"
#include "kernels/torn_lines/look.hpp"
#include "runtime/launch_on_cuda.hpp"
#include "tests/support/gpu_count.hpp"

namespace baton::torn_lines {
namespace {

/// Half of a line first: the other half is what was there.
struct tearing_lines : async_gpu<1> {
  BATON_FN explicit tearing_lines(const async_gpu<1>& x) : async_gpu<1>{x} {}
  BATON_FN void store_lines(std::byte* to, const lanes<vec16>& v) {
    lanes<vec16> half = load_lines(to);
    each_lane([&](int lane) {
      if (lane % lanes_of_line >= lanes_of_line / 2) half[lane] = v[lane];
    });
    async_gpu<1>::store_lines(to, half);
    async_gpu<1>::store_lines(to, v);
  }
};

}  // namespace

struct tearing_kernel {
  static constexpr kernel_bounds bounds = kernel::bounds;
  BATON_FN static void run(async_gpu<1>& base, const params& p) {
    tearing_lines x{base};
    kernel::run(x, p);
  }
};

namespace {

template <class Kernel>
std::vector<found> look_between(const std::vector<world>& worlds) {
  std::vector<std::vector<found>> told(worlds.size());
  on_every_rank(worlds, [&](int r) {
    const world& w = worlds[static_cast<std::size_t>(r)];
    told[static_cast<std::size_t>(r)] = look_with(w, {}, [&w](const launch_grid& g, const params& p) {
      launch_on_cuda<Kernel>(w, g, p, w.state().limits(), {});
    });
  });
  return told[0];
}

class torn_lines_gpu : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (test::num_gpus() < GetParam())
      GTEST_SKIP() << "needs " << GetParam() << " GPUs, found " << test::num_gpus();
  }
};

TEST_P(torn_lines_gpu, lines_between_gpus_are_whole_while_they_are_written) {
  const std::vector<found> all = look_between<kernel>(world::local(GetParam(), device_kind::cuda));
  EXPECT_EQ(what_tore(all), "");
  for (std::size_t r = 0; r < all.size(); ++r) {
    EXPECT_GT(all[r].moving, 100'000u) << "rank " << r << " of " << all[r].lines << " lines";
    RecordProperty("rank_" + std::to_string(r) + "_lines", std::to_string(all[r].lines));
    RecordProperty("rank_" + std::to_string(r) + "_moving", std::to_string(all[r].moving));
  }
}

TEST_P(torn_lines_gpu, planted_lines_that_tear_are_found) {
  EXPECT_NE(what_tore(look_between<tearing_kernel>(world::local(GetParam(), device_kind::cuda))), "");
}

INSTANTIATE_TEST_SUITE_P(cuda, torn_lines_gpu, testing::Values(1, 2, 4, 8));

TEST(torn_lines_gpu, ranks_that_share_a_gpu_look_too) {
  if (test::num_gpus() < 1) GTEST_SKIP() << "needs a GPU";
  const int ranks = std::min(2 * test::num_gpus(), max_ranks);
  EXPECT_EQ(what_tore(look_between<kernel>(world::local(ranks, device_kind::cuda))), "");
}

}  // namespace

}  // namespace baton::torn_lines

namespace baton {

BATON_KERNEL(torn_lines::tearing_kernel, torn_lines::params);

}  // namespace baton
