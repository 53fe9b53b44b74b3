// Products of groups of rows on a GPU: exact on integers whatever the groups' sizes are, and other rows untouched.
#include "baton/grouped_gemm.hpp"

#include <limits>

#include "baton/device_buffer.hpp"
#include "tests/gpu/gpu_case.hpp"
#include "tests/support/grouped_gemm_case.hpp"
#include "tests/support/listed_rows.hpp"

namespace baton {
namespace {

using test::grouped_gemm_case;
using test::integer_groups;

class grouped_gemm_gpu : public test::gpu_case {
 protected:
  void SetUp() override {
    test::gpu_case::SetUp();
    if (!IsSkipped()) worlds_ = world::local(1, device_kind::cuda);
  }
  template <class Value>
  std::vector<Value> product(const test::typed_grouped_case<Value>& g, int num_sms = 0) {
    const device_buffer<Value> a{worlds_[0], g.a}, b{worlds_[0], g.b};
    const device_buffer<std::int32_t> counts{worlds_[0], g.counts}, firsts{worlds_[0], g.firsts};
    device_buffer<Value> c{worlds_[0],
                           std::vector<Value>(g.group.size() * static_cast<std::size_t>(g.n), Value{before})};
    const row_selection rows{g.max_rows, counts.data(), firsts.data(), static_cast<int>(g.counts.size()),
                             num_sms};
    grouped_gemm(worlds_[0], grouped_problem<Value>{a.data(), b.data(), c.data(), g.n, g.k, rows});
    return c.to_host();
  }
  /// Of rows that lie where a list says.
  template <class Value>
  std::vector<Value> listed_product(const test::typed_grouped_case<Value>& g, int num_sms = 0) {
    test::listed_rows<Value> listed{g.a, {}, g.max_rows, g.k};
    const std::vector<std::byte> bytes(listed.data(),
                                       listed.data() + std::ptrdiff_t{listed.row_bytes} * g.max_rows);
    const device_buffer<std::byte> a{worlds_[0], bytes};
    const device_buffer<Value> b{worlds_[0], g.b};
    const device_buffer<std::int32_t> counts{worlds_[0], g.counts}, firsts{worlds_[0], g.firsts},
        list{worlds_[0], listed.list};
    device_buffer<Value> c{worlds_[0],
                           std::vector<Value>(g.group.size() * static_cast<std::size_t>(g.n), Value{before})};
    const row_selection rows{g.max_rows, counts.data(), firsts.data(), static_cast<int>(g.counts.size()),
                             num_sms};
    grouped_gemm(worlds_[0],
                 grouped_problem<Value>{reinterpret_cast<const Value*>(a.data()), b.data(), c.data(), g.n,
                                        g.k, rows, 0, list.data(), g.max_rows, listed.row_bytes});
    return c.to_host();
  }
  template <class Value>
  void expect_right(const test::typed_grouped_case<Value>& g) {
    EXPECT_EQ(test::wrong_value(g, product(g), before), "");
    EXPECT_EQ(test::wrong_value(g, listed_product(g), before), "");
  }
  static constexpr float before = -1;
  std::vector<world> worlds_;
};

TEST_F(grouped_gemm_gpu, integers_are_exact_and_other_rows_stay_at_sizes_around_the_tiles_borders) {
  constexpr int sizes[][6] = {{0, 1, 130, 0, 64, 8},    {65, 0, 0, 300, 16, 15}, {128, 17, 256, 5, 0, 127},
                              {0, 0, 0, 0, 9, 0},       {512, 0, 0, 0, 0, 0},    {1, 1, 1, 1, 1, 1},
                              {129, 255, 257, 63, 1, 2}};
  for (const auto& counts : sizes)
    for (const int gap : {0, 3}) {
      expect_right(integer_groups(counts, 264, 136, gap));
      expect_right(integer_groups(counts, 512, 192, gap));
      expect_right(integer_groups<float16>(counts, 264, 136, gap));
    }
}

TEST_F(grouped_gemm_gpu, integers_are_exact_with_groups_that_are_drawn) {
  std::mt19937 random{5};
  const auto up_to = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most + 1)); };
  for (std::uint32_t i = 0; i < 40; ++i) {
    std::vector<int> counts(static_cast<std::size_t>(1 + up_to(40)));
    for (int& count : counts) count = up_to(3) == 0 ? up_to(300) : up_to(20);
    expect_right(integer_groups(counts, 8 + 8 * up_to(60), 8 + 8 * up_to(30), up_to(2), i));
  }
}

TEST_F(grouped_gemm_gpu, no_group_has_rows_and_nothing_is_written) {
  constexpr int counts[] = {0, 0, 0};
  const grouped_gemm_case g = integer_groups(counts, 64, 64, 5);
  expect_right(g);
}

TEST_F(grouped_gemm_gpu, few_sms_take_many_tiles_each_and_change_no_bit) {
  constexpr int counts[] = {200, 3, 0, 400};
  const grouped_gemm_case g = integer_groups(counts, 520, 72);
  for (const int sms : {1, 2, 7, 50}) {
    EXPECT_EQ(test::wrong_value(g, product(g, sms), before), "") << sms;
    EXPECT_EQ(test::wrong_value(g, listed_product(g, sms), before), "") << sms;
  }
}

TEST_F(grouped_gemm_gpu, counts_that_cannot_be_touch_no_memory_outside) {
  constexpr int counts[] = {40, 24, 16};
  grouped_gemm_case g = integer_groups(counts, 64, 64);
  const auto expected = g;
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max(),
                         least = std::numeric_limits<std::int32_t>::min();
  for (const std::int32_t wrong : {most, least, -1, 81}) {
    g.counts[2] = wrong;
    g.firsts[1] = wrong;
    const std::vector<bfloat16> c = product(g);
    if (wrong < 0) continue;  // group 1 was said to begin where group 0 does
    for (int row = 0; row < 40; ++row)
      EXPECT_EQ(static_cast<float>(c[static_cast<std::size_t>(row) * 64]),
                static_cast<float>(bfloat16{static_cast<float>(expected.product(expected.b, row, 0))}));
  }
}

}  // namespace
}  // namespace baton
