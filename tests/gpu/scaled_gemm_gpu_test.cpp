// Products of e4m3 with scales on a GPU: exact where they can be, whatever the groups' sizes are, and other rows untouched.
#include "baton/scaled_gemm.hpp"

#include <limits>

#include "baton/device_buffer.hpp"
#include "tests/gpu/gpu_case.hpp"
#include "tests/support/listed_rows.hpp"
#include "tests/support/scaled_gemm_case.hpp"

namespace baton {
namespace {

using test::exact_draws;
using test::random_draws;
using test::scaled_gemm_case;
using test::scaled_groups;

/// Tensor cores add 32 products at a time to what they have, and keep 13 bits below the largest of them: of a block's sum, four
/// times 33 terms cut off at 2^-13 of the largest, which is at most the sum of all magnitudes.
constexpr double tensor_core_sums = 4 * 33 * 0x1p-13;

class scaled_gemm_gpu : public test::gpu_case {
 protected:
  void SetUp() override {
    test::gpu_case::SetUp();
    if (!IsSkipped()) worlds_ = world::local(1, device_kind::cuda);
  }
  std::vector<bfloat16> product(const scaled_gemm_case& g, int num_sms = 0) {
    const device_buffer<float8_e4m3> a{worlds_[0], g.a}, b{worlds_[0], g.b};
    const device_buffer<float> a_scales{worlds_[0], g.a_scales}, b_scales{worlds_[0], g.b_scales};
    const device_buffer<std::int32_t> counts{worlds_[0], g.counts}, firsts{worlds_[0], g.firsts};
    device_buffer<bfloat16> c{
        worlds_[0],
        std::vector<bfloat16>(g.group.size() * static_cast<std::size_t>(g.n), bfloat16{left_alone})};
    const row_selection rows{g.max_rows, counts.data(), firsts.data(), static_cast<int>(g.counts.size()),
                             num_sms};
    scaled_grouped_gemm(worlds_[0], {a.data(), a_scales.data(), b.data(), b_scales.data(), c.data(), g.n, g.k,
                                     rows, 0, g.layout});
    return c.to_host();
  }
  /// Of rows that lie where a list says, with their scales.
  std::vector<bfloat16> listed_product(const scaled_gemm_case& g) {
    test::listed_rows<float8_e4m3> listed{g.a, g.a_scales, g.max_rows, g.k};
    const std::vector<std::byte> bytes(listed.data(),
                                       listed.data() + std::ptrdiff_t{listed.row_bytes} * g.max_rows);
    const device_buffer<std::byte> a{worlds_[0], bytes};
    const device_buffer<float8_e4m3> b{worlds_[0], g.b};
    const device_buffer<float> b_scales{worlds_[0], g.b_scales};
    const device_buffer<std::int32_t> counts{worlds_[0], g.counts}, firsts{worlds_[0], g.firsts},
        list{worlds_[0], listed.list};
    device_buffer<bfloat16> c{
        worlds_[0],
        std::vector<bfloat16>(g.group.size() * static_cast<std::size_t>(g.n), bfloat16{left_alone})};
    const row_selection rows{g.max_rows, counts.data(), firsts.data(), static_cast<int>(g.counts.size())};
    scaled_grouped_gemm(worlds_[0], {.a = reinterpret_cast<const float8_e4m3*>(a.data()),
                                     .a_scales = reinterpret_cast<const float*>(a.data() + listed.scales_at),
                                     .b = b.data(),
                                     .b_scales = b_scales.data(),
                                     .c = c.data(),
                                     .n = g.n,
                                     .k = g.k,
                                     .rows = rows,
                                     .a_rows = list.data(),
                                     .num_a_rows = g.max_rows,
                                     .a_row_bytes = listed.row_bytes});
    return c.to_host();
  }
  std::vector<bfloat16> dense_product(const scaled_gemm_case& g, const gemm_config& config = {}) {
    const device_buffer<float8_e4m3> a{worlds_[0], g.a}, b{worlds_[0], g.b};
    const device_buffer<float> a_scales{worlds_[0], g.a_scales}, b_scales{worlds_[0], g.b_scales};
    device_buffer<bfloat16> c{worlds_[0], g.group.size() * static_cast<std::size_t>(g.n)};
    scaled_gemm(
        worlds_[0],
        {a.data(), a_scales.data(), b.data(), b_scales.data(), c.data(), g.max_rows, g.n, g.k, g.layout},
        config);
    return c.to_host();
  }
  void expect_exact(const scaled_gemm_case& g) {
    EXPECT_EQ(test::wrong_value(g, product(g), left_alone), "");
    if (g.layout == scale_layout::row_major && g.max_rows > 0)
      EXPECT_EQ(test::wrong_value(g, listed_product(g), left_alone), "");
  }
  static constexpr float left_alone = -1;
  std::vector<world> worlds_;
};

TEST_F(scaled_gemm_gpu, integers_are_exact_and_other_rows_stay_at_sizes_around_the_tiles_borders) {
  constexpr int sizes[][6] = {{0, 1, 130, 0, 64, 8}, {65, 0, 0, 300, 16, 15}, {128, 17, 256, 5, 0, 127},
                              {0, 0, 0, 0, 9, 0},    {1, 1, 1, 1, 1, 1},      {129, 255, 257, 63, 1, 2}};
  std::uint32_t seed = 1;
  for (const auto& counts : sizes)
    for (const scale_layout layout : {scale_layout::row_major, scale_layout::column_major}) {
      expect_exact(scaled_groups(counts, 264, 272, exact_draws(seed++), layout, 3));
      expect_exact(scaled_groups(counts, 128, 640, exact_draws(seed++), layout));
    }
}

TEST_F(scaled_gemm_gpu, integers_are_exact_with_groups_that_are_drawn) {
  std::mt19937 random{5};
  const auto up_to = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most + 1)); };
  for (std::uint32_t i = 0; i < 20; ++i) {
    std::vector<int> counts(static_cast<std::size_t>(1 + up_to(40)));
    for (int& count : counts) count = up_to(3) == 0 ? up_to(300) : up_to(20);
    expect_exact(scaled_groups(counts, 8 + 8 * up_to(40), 16 + 16 * up_to(30), exact_draws(i),
                               scale_layout::column_major, up_to(2)));
  }
}

TEST_F(scaled_gemm_gpu, dense_products_are_exact_at_sizes_around_the_tiles_borders) {
  constexpr int rows[] = {1, 64, 127, 128, 129, 255, 257, 600};
  std::uint32_t seed = 1;
  for (const int m : rows)
    for (const int n : {8, 248, 264, 520})
      for (const int k : {16, 144, 640}) {
        const scaled_gemm_case g = scaled_groups(std::span<const int>{&m, 1}, n, k, exact_draws(seed++));
        for (const gemm_config& config : {gemm_config{.tiles = gemm_tiles::paired, .splits = 1},
                                          {.tiles = gemm_tiles::medium, .splits = 1},
                                          {.splits = 2},
                                          {.splits = 4},
                                          {.splits = 8},
                                          {.tiles = gemm_tiles::medium, .splits = 2},
                                          {.tiles = gemm_tiles::medium, .splits = 8}})
          ASSERT_EQ(test::wrong_value(g, dense_product(g, config), left_alone), "")
              << m << " " << n << " " << k << " " << name(config.tiles) << " " << config.splits;
      }
}

TEST_F(scaled_gemm_gpu,
       random_values_are_within_what_tensor_cores_cut_off_and_the_same_on_any_number_of_sms) {
  constexpr int counts[] = {200, 3, 0, 400}, rows[] = {700};
  const scaled_gemm_case groups = scaled_groups(counts, 520, 2064, random_draws(1)),
                         dense = scaled_groups(rows, 520, 2064, random_draws(2), scale_layout::column_major);
  const std::vector<bfloat16> of_groups = product(groups), of_dense = dense_product(dense, {.splits = 1}),
                              shared_out = dense_product(dense, {.splits = 4});
  EXPECT_EQ(test::wrong_value(groups, of_groups, left_alone, tensor_core_sums), "");
  EXPECT_EQ(test::wrong_value(dense, of_dense, left_alone, tensor_core_sums), "");
  EXPECT_EQ(test::wrong_value(dense, shared_out, left_alone, tensor_core_sums), "");
  for (const int sms : {1, 2, 7, 50}) {
    EXPECT_TRUE(product(groups, sms) == of_groups) << sms;
    for (const gemm_tiles tiles : {gemm_tiles::paired, gemm_tiles::medium})
      EXPECT_TRUE(dense_product(dense, {tiles, sms, 1}) == of_dense) << sms << name(tiles);
    EXPECT_TRUE(dense_product(dense, {.num_sms = sms, .splits = 4}) == shared_out) << sms;
  }
}

TEST_F(scaled_gemm_gpu, counts_that_cannot_be_touch_no_memory_outside) {
  constexpr int counts[] = {40, 24, 16};
  scaled_gemm_case g = scaled_groups(counts, 64, 144, exact_draws(3));
  const scaled_gemm_case expected = g;
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max(),
                         least = std::numeric_limits<std::int32_t>::min();
  for (const std::int32_t wrong : {most, least, -1, 81}) {
    g.counts[2] = wrong;
    g.firsts[1] = wrong;
    const std::vector<bfloat16> c = product(g);
    if (wrong < 0) continue;  // group 1 was said to begin where group 0 does
    for (int row = 0; row < 40; ++row)
      EXPECT_EQ(static_cast<float>(c[static_cast<std::size_t>(row) * 64]),
                static_cast<float>(bfloat16{static_cast<float>(expected.at(row, 0).sum)}));
  }
}

}  // namespace
}  // namespace baton
