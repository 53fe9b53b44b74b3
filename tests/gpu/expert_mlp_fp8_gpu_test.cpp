// Experts with weights in FP8 on a GPU, rows in every format, by expert and by token: within the bound that follows from their
// roundings.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "baton/baton.hpp"
#include "cli/model/expert_in_double.hpp"
#include "cli/model/moe_error_bound.hpp"
#include "tests/gpu/gpu_case.hpp"

namespace baton {
namespace {

using test::both_sides;

class expert_mlp_fp8_gpu : public test::gpu_case {};

constexpr token_format all_formats[] = {token_format::bf16, token_format::blockwise_fp8, token_format::mxfp8,
                                        token_format::mxfp4, token_format::nvfp4};
constexpr bfloat16 no_row = bfloat16::from_bits(0x7fa5);  // a NaN that no rounding produces

/// Rows of each expert, two of nobody behind them.
struct fp8_rows_problem {
  std::vector<int> counts;
  int hidden, intermediate, max_rows = 2;
  std::vector<world> worlds = world::local(1, device_kind::cuda);
  model::expert_matrices experts{};
  both_sides<std::int32_t> row_counts, row_offsets;
  both_sides<bfloat16> given;  // what rows were before they travelled

  fp8_rows_problem(std::vector<int> rows_of, int hidden_values, int intermediate_values)
      : counts{std::move(rows_of)},
        hidden{hidden_values},
        intermediate{intermediate_values},
        row_counts{counts.size()},
        row_offsets{counts.size() + 1},
        given{all_values()} {
    std::mt19937 random{3};
    std::normal_distribution<float> normal;
    for (std::size_t e = 0; e < counts.size(); ++e) {
      row_counts[e] = counts[e];
      row_offsets[e] = max_rows;
      max_rows += counts[e] + 2;
    }
    row_offsets[counts.size()] = max_rows;
    for (std::size_t i = 0; i < given.size(); ++i) given[i] = bfloat16{normal(random)};
    experts.num_experts = static_cast<int>(counts.size());
    experts.hidden = hidden;
    experts.intermediate = intermediate;
    experts.format = weight_format::block_fp8;
    const auto fill = [&](std::vector<float8_e4m3>& values, std::vector<float>& scales, int n, int k) {
      const auto e = counts.size();
      for (std::size_t i = 0; i < e * static_cast<std::size_t>(n) * static_cast<std::size_t>(k); ++i)
        values.emplace_back(normal(random) * 120.0f);
      for (std::size_t i = 0; i < e * static_cast<std::size_t>(weight_scales(n) * weight_scales(k)); ++i)
        scales.push_back((0.5f + std::abs(normal(random))) / 120.0f / std::sqrt(static_cast<float>(k)));
    };
    fill(experts.fp8.gate, experts.fp8.gate_scales, intermediate, hidden);
    fill(experts.fp8.up, experts.fp8.up_scales, intermediate, hidden);
    fill(experts.fp8.down, experts.fp8.down_scales, hidden, intermediate);
  }
  std::size_t all_values() const {
    int rows = 2;
    for (const int count : counts) rows += count + 2;
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(hidden);
  }

  std::vector<bfloat16> run(const received_tokens& rows, int num_sms = 0) const {
    const both_sides<float8_e4m3> gate{experts.fp8.gate}, up{experts.fp8.up}, down{experts.fp8.down};
    const both_sides<float> gate_scales{experts.fp8.gate_scales}, up_scales{experts.fp8.up_scales},
        down_scales{experts.fp8.down_scales};
    expert_weights weights{gate.data(),
                           up.data(),
                           down.data(),
                           experts.num_experts,
                           hidden,
                           intermediate,
                           weight_format::block_fp8,
                           gate_scales.data(),
                           up_scales.data(),
                           down_scales.data()};
    weights.num_sms = num_sms;
    const both_sides<std::byte> scratch{expert_mlp_scratch_bytes(weights, rows, device_kind::cuda)};
    const both_sides<bfloat16> out{std::vector<bfloat16>(given.size(), no_row)};
    std::memset(scratch.data(), 0x7f, scratch.size());
    expert_mlp(worlds[0], weights, rows, out.data(), scratch.data());
    worlds[0].synchronize();
    return {out.data(), out.data() + out.size()};
  }

  /// Largest error of rows spread over each expert, as a part of its bound; infinite where a row of nobody was written.
  double worst(const std::vector<bfloat16>& out, token_format format) const {
    double largest = 0;
    for (int row = 0; row < 2; ++row)
      if (out[static_cast<std::size_t>(row * hidden)] != no_row) return INFINITY;
    for (std::size_t e = 0; e < counts.size(); ++e) {
      const int begin = row_offsets[e], end = begin + counts[e];
      if (out[static_cast<std::size_t>(end * hidden)] != no_row) return INFINITY;
      for (int row = begin; row < end; row += 37) largest = std::max(largest, error_of(out, row, e, format));
    }
    return largest;
  }
  /// Root of sum (found - exact)^2 over sum exact^2, of rows spread over each expert.
  double rms_relative(const std::vector<bfloat16>& out) const {
    double differences = 0, squares = 0;
    model::expert_in_double exact{experts};
    for (std::size_t e = 0; e < counts.size(); ++e)
      for (int row = row_offsets[e]; row < row_offsets[e] + counts[e]; row += 37) {
        const auto first = static_cast<std::size_t>(row * hidden);
        const std::vector<double>& y = exact.run(static_cast<std::int32_t>(e), given.data() + first);
        for (std::size_t i = 0; i < y.size(); ++i) {
          const double off = static_cast<double>(static_cast<float>(out[first + i])) - y[i];
          differences += off * off;
          squares += y[i] * y[i];
        }
      }
    return std::sqrt(differences / squares);
  }
  double error_of(const std::vector<bfloat16>& out, int row, std::size_t expert, token_format format) const {
    const auto first = static_cast<std::size_t>(row * hidden);
    model::routed_tokens token{1,
                               {given.data() + first, given.data() + first + hidden},
                               {static_cast<std::int32_t>(expert)},
                               {1.0f}};
    std::vector<float> found;
    for (int i = 0; i < hidden; ++i)
      found.push_back(static_cast<float>(out[first + static_cast<std::size_t>(i)]));
    const auto bounds = model::moe_error_bound(
        experts, token, {.tensor_cores = true, .dispatch = format, .fp8_products = true});
    return model::compare(bounds, found, hidden).ratio;
  }
};

/// Rows of a problem as dispatch leaves them: by expert, or by token, the last one first.
class stored_rows {
 public:
  stored_rows(const fp8_rows_problem& p, token_format format, bool by_token)
      : facts_{facts_of(format)},
        blocks_{facts_.row_scales(p.hidden)},
        row_bytes_{facts_.row_bytes(p.hidden) + (blocks_ * facts_.scale_bytes + 15) / 16 * 16 + 16},
        values_{of_rows(p, row_bytes_)},
        scales_{of_rows(p, blocks_ * facts_.scale_bytes + 4)},
        token_rows_{of_rows(p, 1)} {
    tensor_scale_[0] = 0.01f;
    rows_.row_offsets = p.row_offsets.data();
    rows_.row_counts = p.row_counts.data();
    rows_.num_local_experts = p.experts.num_experts;
    rows_.max_rows = p.max_rows;
    rows_.format = format;
    rows_.hidden = p.hidden;
    rows_.tokens = values_.data();
    rows_.scales = blocks_ > 0 ? scales_.data() : nullptr;
    if (format == token_format::nvfp4) rows_.tensor_scale = tensor_scale_.data();
    store(p);
    if (by_token) move_apart(p);
  }
  const received_tokens& rows() const { return rows_; }

 private:
  static std::size_t of_rows(const fp8_rows_problem& p, int bytes) {
    return static_cast<std::size_t>(p.max_rows) * static_cast<std::size_t>(bytes);
  }
  void store(const fp8_rows_problem& p) {
    if (rows_.format == token_format::bf16) {
      std::memcpy(values_.data(), p.given.data(), p.given.size() * sizeof(bfloat16));
      return;
    }
    quantise(p.worlds[0], p.given.data(), p.hidden, {.max_rows = p.max_rows},
             {rows_.format, values_.data(), scales_.data(), rows_.scales_layout, rows_.tensor_scale});
    test::finish();
  }
  void move_apart(const fp8_rows_problem& p) {
    const auto of_values = static_cast<std::size_t>(facts_.row_bytes(p.hidden)),
               of_scales = static_cast<std::size_t>(blocks_ * facts_.scale_bytes);
    const std::vector<std::byte> values(values_.data(), values_.data() + values_.size());
    for (int row = 0; row < p.max_rows; ++row) {
      const int place = p.max_rows - 1 - row;
      const auto r = static_cast<std::size_t>(row);
      token_rows_[r] = place;
      std::byte* const to = values_.data() + static_cast<std::ptrdiff_t>(place) * row_bytes_;
      std::memcpy(to, values.data() + r * of_values, of_values);
      std::memcpy(to + of_values, scales_.data() + r * of_scales, of_scales);
    }
    rows_.token_rows = token_rows_.data();
    rows_.max_token_rows = p.max_rows;
    rows_.row_bytes = row_bytes_;
    if (blocks_ > 0) rows_.scales = values_.data() + of_values;
  }

  format_facts facts_;
  int blocks_, row_bytes_;
  both_sides<std::byte> values_, scales_;
  both_sides<float> tensor_scale_{1};
  both_sides<std::int32_t> token_rows_;
  received_tokens rows_{};
};

/// The bound lets all errors point the same way. Independent ones of relative size at most 2^-4, spread evenly, have a root mean
/// square of 2^-4 / sqrt(3); three of them meet in a result: of rows through gate and through up, and of what lies between.
const double typical_fp8_expert = 0x1p-4;

TEST_F(expert_mlp_fp8_gpu, rows_of_every_format_are_within_their_bound_and_repeat_bit_for_bit) {
  const fp8_rows_problem p{{0, 1, 130, 64}, 384, 272};
  for (const token_format format : all_formats) {
    const stored_rows stored{p, format, false};
    const std::vector<bfloat16> out = p.run(stored.rows());
    EXPECT_LE(p.worst(out, format), 1.0) << name(format);
    EXPECT_EQ(out, p.run(stored.rows())) << name(format);
    if (format == token_format::bf16 || format == token_format::blockwise_fp8) {
      EXPECT_LT(p.rms_relative(out), typical_fp8_expert) << name(format);
      EXPECT_GT(p.rms_relative(out), 0x1p-8) << "FP8 cannot be as near as bf16";
    }
  }
}

TEST_F(expert_mlp_fp8_gpu, tokens_that_lie_once_give_the_same_bits_in_every_format) {
  const fp8_rows_problem p{{3, 0, 130, 65}, 384, 272};
  for (const token_format format : all_formats)
    EXPECT_EQ(p.run(stored_rows{p, format, true}.rows()), p.run(stored_rows{p, format, false}.rows()))
        << name(format);
}

TEST_F(expert_mlp_fp8_gpu, few_sms_give_the_same_bits) {
  const fp8_rows_problem p{{3, 0, 130, 65}, 384, 272};
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
    const stored_rows stored{p, format, false};
    EXPECT_EQ(p.run(stored.rows(), 2), p.run(stored.rows())) << name(format);
  }
}

TEST_F(expert_mlp_fp8_gpu, rows_that_end_within_a_block_are_right) {
  const fp8_rows_problem p{{9, 70}, 208, 144};
  EXPECT_LE(p.worst(p.run(stored_rows{p, token_format::bf16, false}.rows()), token_format::bf16), 1.0);
}

TEST_F(expert_mlp_fp8_gpu, a_long_sum_is_right) {
  const fp8_rows_problem p{{5, 200}, 7168, 256};
  EXPECT_LE(
      p.worst(p.run(stored_rows{p, token_format::blockwise_fp8, false}.rows()), token_format::blockwise_fp8),
      1.0);
}

TEST_F(expert_mlp_fp8_gpu, planted_scales_of_another_block_are_no_rounding) {
  fp8_rows_problem p{{20, 20}, 384, 272};
  const auto right = p.run(stored_rows{p, token_format::blockwise_fp8, false}.rows());
  EXPECT_LT(p.rms_relative(right), typical_fp8_expert);
  std::vector<float>& scales = p.experts.fp8.up_scales;
  std::rotate(scales.begin(), scales.begin() + 1, scales.end());
  EXPECT_GT(p.rms_relative(right), typical_fp8_expert);
}

}  // namespace
}  // namespace baton
