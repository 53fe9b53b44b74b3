// Attention on a GPU, of whatever `supports` says that there are kernels for: against double precision, within what tensor cores
// round, and the same bits again.
#include "baton/attention.hpp"

#include <cstring>
#include <string>
#include <vector>

#include "baton/error.hpp"
#include "tests/gpu/gpu_case.hpp"
#include "tests/support/attention_call.hpp"

namespace baton {
namespace {

using test::attention_case;
using test::attention_result;
using test::attention_shape;

constexpr int head_dims[] = {64, 128, 256, 512};

class attention_gpu : public test::gpu_case {
 protected:
  void SetUp() override {
    test::gpu_case::SetUp();
    if (!IsSkipped()) worlds_ = world::local(1, device_kind::cuda);
  }

  /// Of both types, in rows; twice. `rows`: as many are compared, spread out; 0: all.
  void try_rows(const attention_shape& s, int rows = 0) {
    try_as<bfloat16>(s, rows, [&](const auto& c) { return test::varlen_result(worlds_[0], c); });
    try_as<float16>(s, rows, [&](const auto& c) { return test::varlen_result(worlds_[0], c); });
  }
  void try_pages(const attention_shape& s, int page_size, kv_layout layout, int rows = 0) {
    const auto in_pages = [&](const auto& c) {
      auto keys = test::pages_of(c, page_size, layout, 1);
      test::spoil_unused(keys);
      return test::paged_result(worlds_[0], c, keys);
    };
    try_as<bfloat16>(s, rows, in_pages);
    try_as<float16>(s, rows, in_pages);
  }
  template <class Value>
  void expect_the_same_in_pages_and_in_rows(const attention_shape& s, int page_size, kv_layout layout) {
    const auto c = test::make_attention<Value>(s, 2);
    const auto in_rows = test::varlen_result(worlds_[0], c),
               in_pages = test::paged_result(worlds_[0], c, test::pages_of(c, page_size, layout, 1));
    EXPECT_TRUE(in_rows.out == in_pages.out) << test::text(s);
    EXPECT_EQ(std::memcmp(in_rows.lse.data(), in_pages.lse.data(), in_rows.lse.size() * sizeof(float)), 0)
        << test::text(s);
  }
  bool nothing_served() const { return served_ == 0; }
  const std::string& reason() const { return reason_; }

 private:
  template <class Value, class Call>
  void try_as(const attention_shape& s, int rows, Call call) {
    const auto c = test::make_attention<Value>(s, 1);
    std::vector<int> looked_at;
    for (int i = 0; i < rows; ++i)
      looked_at.push_back(static_cast<int>(std::int64_t{c.total_q() - 1} * i / (rows - 1)));
    attention_result<Value> found;
    try {
      found = call(c);
    } catch (const unsupported& e) {
      reason_ = e.what();
      return;
    }
    ++served_;
    const test::attention_rounding rounding = test::tensor_core_rounding<Value>(s.head_dim);
    EXPECT_EQ(test::errors_of(c, found.out.data(), found.lse.data(), rounding, looked_at).first_wrong, "");
    const attention_result<Value> again = call(c);
    EXPECT_TRUE(found.out == again.out) << test::text(s) << ": other bits the second time";
    EXPECT_EQ(std::memcmp(found.lse.data(), again.lse.data(), found.lse.size() * sizeof(float)), 0)
        << test::text(s);
  }

  std::vector<world> worlds_;
  int served_ = 0;
  std::string reason_;
};

#define BATON_SKIP_IF_NOTHING_IS_SERVED() \
  if (nothing_served()) GTEST_SKIP() << reason()

TEST_F(attention_gpu, lengths_around_the_borders_of_tiles_are_right) {
  for (const int dim : head_dims)
    for (const bool causal : {false, true})
      for (const int n : {1, 63, 64, 65, 127, 128, 129, 200})
        for (const int keys : {n, n + 3, 176})
          try_rows(
              {.q_lens = {n}, .k_lens = {keys}, .heads = 2, .head_dim = dim, .options = {.causal = causal}},
              9);
  BATON_SKIP_IF_NOTHING_IS_SERVED();
}

TEST_F(attention_gpu, every_size_of_group_is_right) {
  for (const int dim : head_dims)
    for (const int group : {1, 2, 3, 4, 5, 7, 8, 12, 16})
      try_rows({.q_lens = {40},
                .k_lens = {150},
                .heads = 2 * group,
                .kv_heads = 2,
                .head_dim = dim,
                .options = {.causal = true}},
               7);
  BATON_SKIP_IF_NOTHING_IS_SERVED();
}

TEST_F(attention_gpu, sequences_of_all_lengths_beside_each_other_and_rows_of_none_are_right) {
  for (const int dim : head_dims)
    for (const bool causal : {false, true})
      try_rows({.q_lens = {70, 0, 5, 1, 130, 12},
                .k_lens = {90, 33, 0, 64, 70, 12},
                .heads = 4,
                .kv_heads = 2,
                .head_dim = dim,
                .options = {.causal = causal},
                .tail = 3},
               60);
  BATON_SKIP_IF_NOTHING_IS_SERVED();
}

TEST_F(attention_gpu, windows_caps_scales_and_sinks_are_right) {
  for (const int dim : head_dims) {
    const attention_shape s{.q_lens = {100}, .k_lens = {190}, .heads = 2, .head_dim = dim};
    for (const int left : {0, 1, 63, 64, 100})
      for (const int right : {-1, 0, 20}) {
        attention_shape windowed = s;
        windowed.options.window_left = left;
        windowed.options.window_right = right;
        try_rows(windowed, 15);
      }
    attention_shape other = s;
    other.options.scale = 1.0f;
    other.spread = 0.05f;
    try_rows(other, 15);
    other = s;
    other.options.softcap = 5;
    try_rows(other, 15);
    other = s;
    other.sinks = true;
    try_rows(other, 15);
    other.options.causal = true;
    other.q_lens = {190};
    other.k_lens = {100};
    try_rows(other, 15);
  }
  BATON_SKIP_IF_NOTHING_IS_SERVED();
}

TEST_F(attention_gpu, long_sequences_are_right_in_rows_spread_over_them) {
  for (const int dim : head_dims)
    for (const bool causal : {false, true})
      try_rows({.q_lens = {2048, 1000},
                .k_lens = {2048, 3000},
                .heads = 8,
                .kv_heads = 2,
                .head_dim = dim,
                .options = {.causal = causal}},
               6);
  BATON_SKIP_IF_NOTHING_IS_SERVED();
}

TEST_F(attention_gpu, keys_in_pages_are_right) {
  for (const int dim : head_dims)
    for (const int page_size : {16, 32, 48, 64, 128})
      for (const kv_layout layout : {kv_layout::nhd, kv_layout::hnd})
        for (const int q_len : {1, 8})
          try_pages({.q_lens = {q_len, q_len, q_len, q_len},
                     .k_lens = {page_size, 2 * page_size + 1, 0, 5 * page_size - 1},
                     .heads = 8,
                     .kv_heads = 2,
                     .head_dim = dim,
                     .options = {.causal = true}},
                    page_size, layout, 9);
  BATON_SKIP_IF_NOTHING_IS_SERVED();
}

TEST_F(attention_gpu, many_rows_of_keys_in_pages_are_right) {
  for (const int dim : head_dims)
    for (const int page_size : {16, 48, 64})
      for (const bool causal : {false, true}) {
        try_pages({.q_lens = {300, 0, 5, 129},
                   .k_lens = {1000, 33, 0, 700},
                   .heads = 4,
                   .kv_heads = 2,
                   .head_dim = dim,
                   .options = {.causal = causal},
                   .sinks = true,
                   .tail = 3},
                  page_size, kv_layout::nhd, 15);
        try_pages({.q_lens = {200, 200},
                   .k_lens = {1500, 900},
                   .heads = 2,
                   .head_dim = dim,
                   .options = {.causal = causal, .window_left = 300, .softcap = causal ? 20.0f : 0.0f}},
                  page_size, kv_layout::hnd, 15);
      }
  BATON_SKIP_IF_NOTHING_IS_SERVED();
}

TEST_F(attention_gpu, keys_in_pages_give_the_bits_of_keys_in_rows_where_boxes_have_32) {
  for (const int dim : head_dims)
    for (const bool causal : {false, true}) {
      const attention_shape s{.q_lens = {500, 200},
                              .k_lens = {2000, 1111},
                              .heads = 4,
                              .kv_heads = 2,
                              .head_dim = dim,
                              .options = {.causal = causal}};
      expect_the_same_in_pages_and_in_rows<bfloat16>(s, 64, kv_layout::nhd);
      expect_the_same_in_pages_and_in_rows<float16>(s, 32, kv_layout::hnd);
    }
}

TEST_F(attention_gpu, without_any_key_there_are_zeros) {
  for (const int dim : head_dims) {
    try_rows({.q_lens = {5, 130}, .k_lens = {0, 0}, .heads = 2, .head_dim = dim});
    try_pages({.q_lens = {5, 130}, .k_lens = {0, 0}, .heads = 2, .head_dim = dim}, 16, kv_layout::nhd);
  }
}

}  // namespace
}  // namespace baton
