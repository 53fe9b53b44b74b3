// Products of e4m3 with scales of eight bits on a GPU: exact, as with fp32 scales of the same values.
#include <vector>

#include "baton/device_buffer.hpp"
#include "baton/scaled_gemm.hpp"
#include "tests/gpu/gpu_case.hpp"
#include "tests/support/e8m0_scales.hpp"
#include "tests/support/scaled_gemm_case.hpp"

namespace baton {
namespace {

using test::exact_draws;
using test::exponents_of;
using test::scaled_gemm_case;
using test::scaled_groups;

class e8m0_scales_gpu : public test::gpu_case {
 protected:
  void SetUp() override {
    test::gpu_case::SetUp();
    if (!IsSkipped()) worlds_ = world::local(1, device_kind::cuda);
  }
  /// Which scales are of eight bits: of a, of b or both.
  static constexpr bool choices[][2] = {{true, false}, {false, true}, {true, true}};

  void expect_groups_exact(const scaled_gemm_case& g) {
    const world& w = worlds_[0];
    const device_buffer<float8_e4m3> a{w, g.a}, b{w, g.b};
    const device_buffer<float> a_scales{w, g.a_scales}, b_scales{w, g.b_scales};
    const device_buffer<float8_e8m0> a_exponents{w, exponents_of(g.a_scales)},
        b_exponents{w, exponents_of(g.b_scales)};
    const device_buffer<std::int32_t> counts{w, g.counts}, firsts{w, g.firsts};
    std::vector<std::int32_t> own;  // a list in which each row is its own
    for (int r = 0; r < g.max_rows; ++r) own.push_back(r);
    const device_buffer<std::int32_t> list{w, own};
    for (const auto& of : choices) {
      for (const bool is_listed : {false, true}) {
        if (is_listed && g.layout != scale_layout::row_major) continue;
        device_buffer<bfloat16> c{
            w, std::vector<bfloat16>(g.group.size() * static_cast<std::size_t>(g.n), bfloat16{as_before})};
        scaled_grouped_gemm(
            w, {.a = a.data(),
                .a_scales = of[0] ? nullptr : a_scales.data(),
                .b = b.data(),
                .b_scales = of[1] ? nullptr : b_scales.data(),
                .c = c.data(),
                .n = g.n,
                .k = g.k,
                .rows = {g.max_rows, counts.data(), firsts.data(), static_cast<int>(g.counts.size())},
                .a_layout = g.layout,
                .a_rows = is_listed ? list.data() : nullptr,
                .num_a_rows = is_listed ? g.max_rows : 0,
                .e8m0_a_scales = of[0] ? a_exponents.data() : nullptr,
                .e8m0_b_scales = of[1] ? b_exponents.data() : nullptr});
        EXPECT_EQ(test::wrong_value(g, c.to_host(), as_before), "") << of[0] << of[1] << is_listed;
      }
    }
  }
  static constexpr float as_before = -1;
  std::vector<world> worlds_;
};

TEST_F(e8m0_scales_gpu, of_groups_are_worth_what_fp32_scales_are) {
  constexpr int sizes[][6] = {{0, 1, 130, 0, 64, 8}, {65, 0, 0, 300, 16, 15}, {129, 255, 257, 63, 1, 2}};
  std::uint32_t seed = 1;
  for (const auto& counts : sizes)
    for (const scale_layout layout : {scale_layout::row_major, scale_layout::column_major})
      expect_groups_exact(scaled_groups(counts, 264, 656, exact_draws(seed++), layout, 3));
}

TEST_F(e8m0_scales_gpu, of_dense_products_are_with_all_tiles_and_parts_of_k) {
  constexpr int rows[] = {300};
  const scaled_gemm_case g = scaled_groups(rows, 264, 1040, exact_draws(9));
  const world& w = worlds_[0];
  const device_buffer<float8_e4m3> a{w, g.a}, b{w, g.b};
  const device_buffer<float8_e8m0> a_exponents{w, exponents_of(g.a_scales)},
      b_exponents{w, exponents_of(g.b_scales)};
  for (const gemm_config& config : {gemm_config{.tiles = gemm_tiles::paired, .splits = 1},
                                    {.tiles = gemm_tiles::medium, .splits = 1},
                                    {.splits = 4},
                                    {.tiles = gemm_tiles::medium, .splits = 4}}) {
    device_buffer<bfloat16> c{w, g.group.size() * static_cast<std::size_t>(g.n)};
    scaled_gemm(w,
                {.a = a.data(),
                 .b = b.data(),
                 .c = c.data(),
                 .m = g.max_rows,
                 .n = g.n,
                 .k = g.k,
                 .e8m0_a_scales = a_exponents.data(),
                 .e8m0_b_scales = b_exponents.data()},
                config);
    EXPECT_EQ(test::wrong_value(g, c.to_host(), as_before), "") << name(config.tiles) << " " << config.splits;
  }
}

}  // namespace
}  // namespace baton
