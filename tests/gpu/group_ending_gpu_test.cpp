// What products of groups and of e4m3 end in, on a GPU: exact where it can be, whatever the groups' sizes are.
#include "baton/device_buffer.hpp"
#include "baton/grouped_gemm.hpp"
#include "baton/scaled_gemm.hpp"
#include "tests/gpu/gpu_case.hpp"
#include "tests/support/group_ending_case.hpp"
#include "tests/support/listed_rows.hpp"

namespace baton {
namespace {

using test::ending_values;
using test::exact_draws;
using test::group_ending;
using test::group_endings;
using test::integer_groups;
using test::scaled_gemm_case;
using test::scaled_groups;

class group_ending_gpu : public test::gpu_case {
 protected:
  void SetUp() override {
    test::gpu_case::SetUp();
    if (!IsSkipped()) worlds_ = world::local(1, device_kind::cuda);
  }
  /// What ends a product, where the GPU reads it.
  template <class Value>
  struct ending_there {
    device_buffer<Value> own;
    device_buffer<float> fp32, weights;

    ending_there(const world& w, const ending_values<Value>& values)
        : own{w, values.own}, fp32{w, values.fp32}, weights{w, values.weights} {}
    template <class Problem>
    void give_to(Problem& p, const group_ending& e) const {
      if (e.bias == test::bias_kind::own) p.bias = own.data();
      if (e.bias == test::bias_kind::fp32) p.fp32_bias = fp32.data();
      p.act = e.act;
      if constexpr (requires { p.row_weights; }) p.row_weights = e.weighs ? weights.data() : nullptr;
    }
  };
  /// Rows of a where a list says.
  template <class Value>
  struct list_there {
    test::listed_rows<Value> listed;
    device_buffer<std::byte> bytes;
    device_buffer<std::int32_t> list;

    template <class Case>
    list_there(const world& w, const Case& g, const std::vector<float>& scales)
        : listed{g.a, scales, g.max_rows, g.k},
          bytes{w, std::vector<std::byte>(listed.data(),
                                          listed.data() + std::ptrdiff_t{listed.row_bytes} * g.max_rows)},
          list{w, listed.list} {}
    template <class Problem>
    void give_to(Problem& p) const {
      p.a = reinterpret_cast<const Value*>(bytes.data());
      p.a_rows = list.data();
      p.num_a_rows = listed.count;
      p.a_row_bytes = listed.row_bytes;
      if constexpr (requires { p.a_scales; })
        p.a_scales = reinterpret_cast<const float*>(bytes.data() + listed.scales_at);
    }
  };
  template <class Case>
  row_selection rows_of(const Case& g, const device_buffer<std::int32_t>& counts,
                        const device_buffer<std::int32_t>& firsts) {
    return {g.max_rows, counts.data(), firsts.data(), static_cast<int>(g.counts.size())};
  }
  template <class Value, class Case>
  std::vector<Value> untouched(const Case& g) {
    return std::vector<Value>(g.group.size() * static_cast<std::size_t>(g.n), Value{not_written});
  }

  template <class Value>
  void expect_right(const test::typed_grouped_case<Value>& g) {
    const world& w = worlds_[0];
    const ending_values<Value> values{g};
    const ending_there<Value> ending{w, values};
    const list_there<Value> listed{w, g, {}};
    const device_buffer<Value> a{w, g.a}, b{w, g.b};
    const device_buffer<std::int32_t> counts{w, g.counts}, firsts{w, g.firsts};
    for (const group_ending& e : group_endings()) {
      for (const bool is_listed : {false, true}) {
        device_buffer<Value> c{w, untouched<Value>(g)};
        grouped_problem<Value> p{.a = a.data(),
                                 .b = b.data(),
                                 .c = c.data(),
                                 .n = g.n,
                                 .k = g.k,
                                 .rows = rows_of(g, counts, firsts)};
        if (is_listed) listed.give_to(p);
        ending.give_to(p, e);
        grouped_gemm(w, p);
        EXPECT_EQ(test::wrong_ending(e, values, g, c.to_host(), not_written), "") << is_listed;
      }
    }
  }
  void expect_right(const scaled_gemm_case& g, double relative = 0) {
    const world& w = worlds_[0];
    const ending_values<bfloat16> values{g};
    const ending_there<bfloat16> ending{w, values};
    const list_there<float8_e4m3> listed{w, g, g.a_scales};
    const device_buffer<float8_e4m3> a{w, g.a}, b{w, g.b};
    const device_buffer<float> a_scales{w, g.a_scales}, b_scales{w, g.b_scales};
    const device_buffer<std::int32_t> counts{w, g.counts}, firsts{w, g.firsts};
    for (const group_ending& e : group_endings()) {
      for (const bool is_listed : {false, true}) {
        device_buffer<bfloat16> c{w, untouched<bfloat16>(g)};
        scaled_grouped_gemm_problem p{
            a.data(), a_scales.data(),           b.data(), b_scales.data(), c.data(), g.n,
            g.k,      rows_of(g, counts, firsts)};
        if (is_listed) listed.give_to(p);
        ending.give_to(p, e);
        scaled_grouped_gemm(w, p);
        EXPECT_EQ(test::wrong_ending(e, values, g, c.to_host(), not_written, relative), "") << is_listed;
      }
    }
  }
  void expect_dense_right(const scaled_gemm_case& g, const gemm_config& config) {
    const world& w = worlds_[0];
    const ending_values<bfloat16> values{g};
    const ending_there<bfloat16> ending{w, values};
    const device_buffer<float8_e4m3> a{w, g.a}, b{w, g.b};
    const device_buffer<float> a_scales{w, g.a_scales}, b_scales{w, g.b_scales};
    for (const group_ending& e : group_endings(false)) {
      device_buffer<bfloat16> c{w, untouched<bfloat16>(g)};
      scaled_gemm_problem p{a.data(), a_scales.data(), b.data(), b_scales.data(),
                            c.data(), g.max_rows,      g.n,      g.k};
      ending.give_to(p, e);
      scaled_gemm(w, p, config);
      EXPECT_EQ(test::wrong_ending(e, values, g, c.to_host(), not_written), "")
          << name(config.tiles) << " " << config.splits;
    }
  }
  static constexpr float not_written = -1;
  std::vector<world> worlds_;
};

constexpr int ended_sizes[][6] = {{0, 1, 130, 0, 64, 8}, {65, 0, 0, 300, 16, 15}, {128, 17, 256, 5, 0, 127}};

TEST_F(group_ending_gpu, endings_are_of_each_tiles_group_columns_and_rows) {
  for (const auto& counts : ended_sizes) {
    expect_right(integer_groups(counts, 264, 136, 3, 1, 2));
    expect_right(integer_groups<float16>(counts, 264, 136, 0, 1, 2));
    expect_right(integer_groups(counts, 520, 0, 3, 1, 2));
  }
}

TEST_F(group_ending_gpu, those_of_e4m3_are_too) {
  for (const auto& counts : ended_sizes) {
    expect_right(scaled_groups(counts, 264, 272, exact_draws(1), scale_layout::row_major, 3));
    expect_right(scaled_groups(counts, 128, 0, exact_draws(2), scale_layout::row_major, 3));
  }
}

/// Tensor cores add 32 products at a time to what they have, and keep 13 bits below the largest of them: of a block's sum, four
/// times 33 terms cut off at 2^-13 of the largest, which is at most the sum of all magnitudes.
TEST_F(group_ending_gpu, random_values_of_e4m3_end_as_near_as_their_sums_are) {
  constexpr int counts[] = {200, 3, 0, 400};
  expect_right(scaled_groups(counts, 264, 1040, test::random_draws(3)), 4 * 33 * 0x1p-13);
}

TEST_F(group_ending_gpu, dense_products_of_e4m3_end_so_with_all_tiles_and_parts_of_k) {
  constexpr int rows[] = {300};
  const scaled_gemm_case g = scaled_groups(rows, 264, 656, exact_draws(4));
  for (const gemm_config& config : {gemm_config{.tiles = gemm_tiles::paired, .splits = 1},
                                    {.tiles = gemm_tiles::medium, .splits = 1},
                                    {.splits = 4},
                                    {.tiles = gemm_tiles::medium, .splits = 4}})
    expect_dense_right(g, config);
}

}  // namespace
}  // namespace baton
