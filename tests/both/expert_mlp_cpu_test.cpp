#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "base/stored_rows.hpp"
#include "baton/device_buffer.hpp"
#include "baton/quantise.hpp"
#include "cli/model/expert_in_double.hpp"
#include "cli/model/moe_error_bound.hpp"
#include "kernels/expert_mlp/cpu.hpp"

namespace {

using namespace baton;
using model::expert_matrices;
using model::routed_tokens;

constexpr bfloat16 poison = bfloat16::from_bits(0x7fc1);  // a NaN that no arithmetic makes

std::vector<bfloat16> random_values(std::size_t n, float scale, std::mt19937& random) {
  std::normal_distribution<float> normal{0.0f, scale};
  std::vector<bfloat16> values(n);
  for (auto& v : values) v = bfloat16{normal(random)};
  return values;
}

/// Rows of several experts with room between them, as a dispatch leaves them.
struct problem {
  expert_matrices experts;
  std::vector<std::int32_t> offsets, counts;
  std::vector<bfloat16> rows;         // [max_rows, hidden]; unused rows hold NaN
  std::vector<float8_e4m3> fp8_rows;  // the same as e4m3, with
  std::vector<float> scales;          // [hidden / 128, max_rows]; and what they stand for:
  std::vector<bfloat16> dequantised;  // [max_rows, hidden]
  int max_rows = 0;

  problem(std::vector<std::int32_t> rows_of_expert, int hidden, int intermediate, std::uint32_t seed)
      : counts{std::move(rows_of_expert)} {
    std::mt19937 random{seed};
    const auto e = counts.size(), h = static_cast<std::size_t>(hidden),
               m = static_cast<std::size_t>(intermediate);
    experts = {static_cast<int>(e),
               hidden,
               intermediate,
               random_values(e * h * m, 0.1f, random),
               random_values(e * h * m, 0.1f, random),
               random_values(e * h * m, 0.1f, random)};
    offsets.push_back(2);
    for (const int c : counts) offsets.push_back((offsets.back() + c + 3) / 4 * 4);
    max_rows = offsets.back() + 3;
    rows.assign(static_cast<std::size_t>(max_rows) * h, poison);
    // Blocks of very different magnitude, so that a scale taken from another block or row shows.
    for_each_row([&](std::size_t, std::size_t row) {
      for (std::size_t first = 0; first < h; first += 128) {
        const std::size_t n = std::min<std::size_t>(128, h - first);
        const auto values =
            random_values(n, std::exp2(static_cast<float>((row * 5 + first / 128 * 3) % 9) - 4), random);
        std::copy(values.begin(), values.end(), rows.begin() + static_cast<std::ptrdiff_t>(row * h + first));
      }
    });
    quantise();
  }

  std::size_t hidden() const { return static_cast<std::size_t>(experts.hidden); }

  /// With scales that are powers of two, so that what e4m3 and scale stand for is a bf16 number again.
  void quantise() {
    fp8_rows.assign(rows.size(), float8_e4m3::from_bits(0x7f));
    scales.assign(rows.size() / 128 + 1, std::numeric_limits<float>::quiet_NaN());
    dequantised = rows;
    for_each_row([&](std::size_t, std::size_t row) {
      for (std::size_t block = 0; (block + 1) * 128 <= hidden(); ++block) {
        const std::size_t first = row * hidden() + block * 128;
        float largest = 1e-4f;
        for (std::size_t i = first; i < first + 128; ++i)
          largest = std::max(largest, std::fabs(static_cast<float>(rows[i])));
        const float scale = std::exp2(std::ceil(std::log2(largest / 448.0f)));
        scales[block * static_cast<std::size_t>(max_rows) + row] = scale;
        for (std::size_t i = first; i < first + 128; ++i) {
          fp8_rows[i] = float8_e4m3{static_cast<float>(rows[i]) / scale};
          dequantised[i] = bfloat16{static_cast<float>(fp8_rows[i]) * scale};
        }
      }
    });
  }

  template <class Visit>
  void for_each_row(Visit visit) const {
    for (std::size_t e = 0; e < counts.size(); ++e) {
      for (int r = 0; r < counts[e]; ++r) visit(e, static_cast<std::size_t>(offsets[e] + r));
    }
  }

  expert_weights weights() const {
    return {experts.gate.data(), experts.up.data(), experts.down.data(),
            experts.num_experts, experts.hidden,    experts.intermediate};
  }

  received_tokens received(token_format format) const {
    received_tokens received;
    received.tokens = format == token_format::bf16 ? static_cast<const void*>(rows.data()) : fp8_rows.data();
    received.scales = format == token_format::bf16 ? nullptr : scales.data();
    received.row_offsets = offsets.data();
    received.row_counts = counts.data();
    received.num_local_experts = experts.num_experts;
    received.max_rows = max_rows;
    received.format = format;
    received.scales_layout = scale_layout::column_major;
    received.hidden = experts.hidden;
    return received;
  }
  std::vector<bfloat16> run(const received_tokens& from) const {
    std::vector<bfloat16> out(rows.size(), poison);
    expert_mlp_cpu::run(weights(), from, out.data());
    return out;
  }
  std::vector<bfloat16> run(token_format format) const { return run(received(format)); }

  /// Largest error of `out`, computed from `inputs`, as a part of its bound; infinite for NaN.
  double worst(const std::vector<bfloat16>& out, const std::vector<bfloat16>& inputs) const {
    double largest = 0;
    for_each_row([&](std::size_t expert, std::size_t row) {
      const auto first = inputs.begin() + static_cast<std::ptrdiff_t>(row * hidden());
      const routed_tokens token{
          1, {first, first + experts.hidden}, {static_cast<std::int32_t>(expert)}, {1.0f}};
      std::vector<float> found;
      for (std::size_t i = 0; i < hidden(); ++i) found.push_back(static_cast<float>(out[row * hidden() + i]));
      const auto bounded = model::moe_error_bound(experts, token, {});
      largest = std::max(largest, model::compare(bounded, found, experts.hidden).ratio);
    });
    return largest;
  }
  double worst_bf16() const { return worst(run(token_format::bf16), rows); }
  double worst_fp8() const { return worst(run(token_format::blockwise_fp8), dequantised); }

  /// Rows outside every expert that `out` no longer holds poison in.
  int rows_touched_outside(const std::vector<bfloat16>& out) const {
    std::vector<bool> is_used(static_cast<std::size_t>(max_rows));
    for_each_row([&](std::size_t, std::size_t row) { is_used[row] = true; });
    int touched = 0;
    for (std::size_t row = 0; row < is_used.size(); ++row) {
      for (std::size_t i = 0; i < hidden(); ++i) {
        if (is_used[row] || out[row * hidden() + i] == poison) continue;
        ++touched;
        break;
      }
    }
    return touched;
  }
};

struct shape {
  std::vector<std::int32_t> counts;
  int hidden, intermediate;
};

class expert_mlp_cpu_shapes : public testing::TestWithParam<shape> {};

TEST_P(expert_mlp_cpu_shapes, rows_are_within_the_bound_and_nothing_else_is_touched) {
  const auto& [counts, hidden, intermediate] = GetParam();
  const problem p{counts, hidden, intermediate, 7};
  const auto out = p.run(token_format::bf16);
  EXPECT_LE(p.worst(out, p.rows), 1.0);
  EXPECT_EQ(p.rows_touched_outside(out), 0);
  EXPECT_EQ(out, p.run(token_format::bf16)) << "two runs differ";
  if (hidden % 128 != 0) return;
  const auto from_fp8 = p.run(token_format::blockwise_fp8);
  EXPECT_LE(p.worst(from_fp8, p.dequantised), 1.0);
  EXPECT_EQ(p.rows_touched_outside(from_fp8), 0);
}

INSTANTIATE_TEST_SUITE_P(odd_and_even, expert_mlp_cpu_shapes,
                         testing::Values(shape{{0}, 128, 64}, shape{{0, 0, 5, 0}, 128, 64}, shape{{1}, 8, 8},
                                         shape{{17, 1, 33}, 256, 64}, shape{{3, 0, 2}, 40, 24},
                                         shape{{16, 32}, 384, 128}));

TEST(expert_mlp_cpu, neither_a_wrong_expert_nor_a_wrong_scale_would_pass) {
  problem p{{9, 4}, 256, 64, 3};
  ASSERT_LE(p.worst_bf16(), 1.0);
  ASSERT_LE(p.worst_fp8(), 1.0);
  const auto first = static_cast<std::size_t>(p.offsets[0]), stride = static_cast<std::size_t>(p.max_rows);
  std::swap(p.scales[first], p.scales[first + 1]);
  EXPECT_GT(p.worst_fp8(), 1.0) << "two rows' scales swapped";
  p.quantise();
  std::swap(p.scales[first], p.scales[stride + first]);
  EXPECT_GT(p.worst_fp8(), 1.0) << "one row's blocks swapped";
  const auto right = p.run(token_format::bf16);
  std::swap_ranges(p.experts.up.begin(), p.experts.up.begin() + 256 * 64, p.experts.up.begin() + 256 * 64);
  EXPECT_GT(p.worst(right, p.rows), 1.0) << "the other expert's up projection";
}

TEST(expert_mlp_cpu, rows_of_narrow_formats_are_what_they_stand_for) {
  const world cpu = world::local(1, device_kind::cpu)[0];
  problem p{{9, 0, 4}, 256, 64, 11};
  for (const token_format format : {token_format::mxfp8, token_format::mxfp4, token_format::nvfp4}) {
    for (const scale_layout layout : {scale_layout::row_major, scale_layout::tiled_128x4}) {
      const format_facts facts = facts_of(format);
      const scale_places places{layout, p.max_rows, facts.row_scales(256)};
      device_buffer<bfloat16> in{cpu, p.rows};
      device_buffer<std::int32_t> counts{cpu, p.counts}, offsets{cpu, p.offsets};
      device_buffer<float> tensor_scale{
          cpu, std::vector<float>{0.25f}};  // a power of two: what rows stand for stays bf16
      device_buffer<std::byte> values{cpu, static_cast<std::size_t>(p.max_rows * facts.row_bytes(256))},
          scales{cpu, static_cast<std::size_t>(places.count())};
      received_tokens rows{values.data(), scales.data(), offsets.data(), counts.data()};
      rows.num_local_experts = 3;
      rows.max_rows = p.max_rows;
      rows.format = format;
      rows.hidden = 256;
      rows.scales_layout = layout;
      if (format == token_format::nvfp4) rows.tensor_scale = tensor_scale.data();
      quantise(cpu, in.data(), 256, rows_of(rows),
               {format, values.data(), scales.data(), layout, rows.tensor_scale});
      cpu.synchronize();
      std::vector<bfloat16> meant = p.rows, out(p.rows.size(), poison);
      p.for_each_row([&](std::size_t, std::size_t row) {
        float widened[256];
        widen_row(rows, row, widened);
        for (std::size_t i = 0; i < 256; ++i) meant[row * 256 + i] = bfloat16{widened[i]};
      });
      EXPECT_NE(meant, p.rows);
      expert_mlp_cpu::run(p.weights(), rows, out.data());
      EXPECT_LE(p.worst(out, meant), 1.0) << name(format) << ", " << name(layout);
      EXPECT_GT(p.worst(out, p.rows), 1.0) << "the rows before they were stored";
    }
  }
}

/// A problem's rows as ep_rows::by_token leaves them, the last one first, something behind each.
struct rows_by_token {
  std::vector<std::byte> stored;
  std::vector<std::int32_t> token_rows;
  received_tokens received;

  rows_by_token(const problem& p, token_format format) : received{p.received(format)} {
    const format_facts facts = facts_of(format);
    const auto values = static_cast<std::size_t>(facts.row_bytes(received.hidden));
    const int blocks = facts.row_scales(received.hidden);
    const std::size_t row_bytes = values + static_cast<std::size_t>((blocks * 4 + 15) / 16 * 16 + 16);
    stored.assign(static_cast<std::size_t>(p.max_rows) * row_bytes, std::byte{0xff});
    for (int row = 0; row < p.max_rows; ++row) {
      token_rows.push_back(p.max_rows - 1 - row);
      std::byte* to = stored.data() + static_cast<std::size_t>(token_rows.back()) * row_bytes;
      std::memcpy(to, static_cast<const std::byte*>(received.tokens) + static_cast<std::size_t>(row) * values,
                  values);
      for (int b = 0; b < blocks; ++b)
        std::memcpy(to + values + 4 * b, &p.scales[static_cast<std::size_t>(b * p.max_rows + row)], 4);
    }
    received.tokens = stored.data();
    received.scales = blocks > 0 ? stored.data() + values : nullptr;
    received.scales_layout = scale_layout::row_major;
    received.token_rows = token_rows.data();
    received.max_token_rows = p.max_rows;
    received.row_bytes = static_cast<int>(row_bytes);
  }
};

TEST(expert_mlp_cpu, tokens_that_lie_once_give_the_same_bits_wherever_they_lie) {
  const problem p{{9, 0, 4}, 256, 64, 13};
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8})
    EXPECT_EQ(p.run(rows_by_token{p, format}.received), p.run(format)) << name(format);
}

TEST(expert_mlp_cpu, fp8_scales_may_be_row_major) {
  const problem p{{9, 0, 4}, 256, 64, 13};
  received_tokens rows = p.received(token_format::blockwise_fp8);
  std::vector<float> scales;
  for (std::size_t row = 0; row < static_cast<std::size_t>(p.max_rows); ++row)
    for (const std::size_t block : {0, 1})
      scales.push_back(p.scales[block * static_cast<std::size_t>(p.max_rows) + row]);
  rows.scales = scales.data();
  rows.scales_layout = scale_layout::row_major;
  EXPECT_EQ(p.run(rows), p.run(token_format::blockwise_fp8));
}

TEST(expert_mlp_cpu, a_damaged_place_of_a_token_leads_to_no_other_memory) {
  const problem p{{2}, 256, 64, 13};
  const auto first = static_cast<std::size_t>(p.offsets[0]);
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
    for (const std::int32_t damaged : {-1, p.max_rows, std::numeric_limits<std::int32_t>::min(),
                                       std::numeric_limits<std::int32_t>::max()}) {
      rows_by_token rows{p, format};
      rows_by_token nearest{p, format};
      rows.token_rows[first] = damaged;
      nearest.token_rows[first] = damaged < 0 ? 0 : p.max_rows - 1;
      EXPECT_EQ(std::memcmp(p.run(rows.received).data(), p.run(nearest.received).data(), p.rows.size() * 2),
                0)
          << damaged;
    }
  }
}

TEST(expert_mlp_cpu, extreme_gates_give_no_nan) {
  problem p{{2}, 8, 8, 5};
  for (auto& g : p.experts.gate) g = bfloat16{1e4f};
  for (auto& x : p.rows) x = bfloat16{1.0f};
  std::fill_n(p.rows.begin() + p.offsets[0] * 8, 8,
              bfloat16{-1.0f});  // one row of gates at -8e4, one at +8e4
  const auto out = p.run(token_format::bf16);
  EXPECT_LE(p.worst(out, p.rows), 1.0);
}

}  // namespace
