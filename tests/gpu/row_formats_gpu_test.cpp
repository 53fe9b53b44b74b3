// quantise and fused_silu on a GPU: the CPU's bits for every bf16 and floats of all magnitudes, and silu within its bound.
#include <algorithm>
#include <bit>
#include <numeric>

#include "tests/gpu/gpu_case.hpp"
#include "tests/support/row_formats_case.hpp"

namespace baton::test {
namespace {

constexpr token_format scaled_formats[] = {token_format::blockwise_fp8, token_format::mxfp8,
                                           token_format::mxfp4, token_format::nvfp4};

class row_formats_gpu : public gpu_case {
 protected:
  void SetUp() override {
    gpu_case::SetUp();
    if (IsSkipped()) return;
    gpu_ = world::local(1, device_kind::cuda);
    cpu_ = world::local(1, device_kind::cpu);
  }
  rows_result on_gpu(const rows_case& c, const std::vector<float>& in) { return rows_run{gpu_[0], c}(in); }

  /// The hardware has one NaN in e4m3, we keep its sign: equal here.
  void expect_the_bits_of_the_cpu(const rows_case& c, const std::vector<float>& in) {
    rows_result gpu = on_gpu(c, in), cpu = rows_run{cpu_[0], c}(in);
    if (c.format == token_format::blockwise_fp8) {
      for (rows_result* r : {&gpu, &cpu})
        for (std::uint8_t& code : r->values) code = (code & 0x7f) == 0x7f ? 0x7f : code;
    }
    EXPECT_TRUE(gpu.scales == cpu.scales) << text(c) << ": scales";
    EXPECT_TRUE(gpu.values == cpu.values) << text(c) << ": values";
  }

  std::vector<world> gpu_, cpu_;
};

/// Every bf16 `times` times: neighbours together first, then in other orders, so that blocks hold large and small ones.
std::vector<float> every_bf16(std::uint32_t times) {
  std::vector<float> values;
  for (std::uint32_t n = 0; n < times; ++n) {
    const std::uint32_t stride = 2 * 641 * n + 1;  // odd: every code once
    for (std::uint32_t i = 0; i < 0x10000u; ++i)
      values.push_back(std::bit_cast<float>((i * stride & 0xffffu) << 16));
  }
  return values;
}

TEST_F(row_formats_gpu, every_bf16_beside_every_kind_of_neighbour_has_the_bits_of_the_cpu) {
  for (const token_format format : scaled_formats) {
    for (const float tensor : {1.0f, 0.0037f}) {
      const std::vector<float> in = every_bf16(16);
      rows_case c{
          rows_from::bf16, format, scale_layout::row_major, 2048, {}, {}, static_cast<int>(in.size() / 2048),
          tensor};
      expect_the_bits_of_the_cpu(c, in);
      c.from = rows_from::fp32;
      expect_the_bits_of_the_cpu(c, in);
    }
  }
}

TEST_F(row_formats_gpu, floats_spread_over_all_bit_patterns_have_the_bits_of_the_cpu) {
  std::vector<float> in;
  for (std::uint32_t i = 0; i < 1u << 20; ++i) {
    const std::uint32_t exponent = i / 128 % 254,
                        rest = i * 2654435761u;  // a block's values are of like magnitude
    in.push_back(std::bit_cast<float>(((exponent << 23) + (rest >> 8 & 0xffffffu)) | (rest & 0x80000000u)));
  }
  for (const token_format format : scaled_formats) {
    for (const scale_layout layout :
         {scale_layout::row_major, scale_layout::column_major, scale_layout::tiled_128x4}) {
      if (layout == scale_layout::tiled_128x4 && format == token_format::blockwise_fp8) continue;
      expect_the_bits_of_the_cpu({rows_from::fp32, format, layout, 1024, {}, {}, 1024}, in);
    }
  }
}

TEST_F(row_formats_gpu, ranges_and_odd_numbers_of_values_are_as_the_rules_say) {
  for (const token_format format : scaled_formats) {
    for (const int multiples : {1, 3, 9, 40}) {
      const rows_case c{rows_from::bf16,
                        format,
                        scale_layout::row_major,
                        facts_of(format).multiple * multiples,
                        {70, 0, 1, 300},
                        {1, 80, 90, 200},
                        511};
      const std::vector<float> in = uneven_values(c, 9);
      EXPECT_EQ(first_wrong(c, in, on_gpu(c, in)), "") << text(c);
    }
  }
}

/// silu in fp32 has three roundings and an exp within 2 units in the last place, all of whose relative errors add up to less than
/// (8 + 2 |gate|) 2^-22. bf16 then rounds by 2^-9 of the value; e4m3 by 2^-4 of it, e2m1 by 2^-2, or by half its smallest step,
/// not more than 1/4 of the scale; what saturates loses 1/8 in e4m3, 1/4 in e2m1. NVFP4 with a tensor scale of 1 holds no more
/// than 6 * 448, and scales below e4m3's normal numbers are off by up to 2^-10, which is 0 for the smallest blocks: 6 times
/// this of a value.
TEST_F(row_formats_gpu, silu_times_up_is_within_its_roundings) {
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8, token_format::mxfp8,
                                    token_format::mxfp4, token_format::nvfp4}) {
    const rows_case c{rows_from::silu, format, scale_layout::row_major, 1408, {33, 100}, {0, 40}, 150};
    const std::vector<float> in = uneven_values(c, 10);
    const std::vector<float> right = activated(c, in);
    const rows_result found = on_gpu(c, in);
    const std::vector<bool> is_in = rows_in_ranges(c);
    const int block = format == token_format::bf16 ? 1 : facts_of(format).block;
    const double relative = format == token_format::bf16       ? 0x1p-8
                            : facts_of(format).value_bits == 8 ? 0x1p-3
                                                               : 0x1p-2;
    const bool is_nv = format == token_format::nvfp4;
    const double absolute = is_nv ? 6 * 0x1p-10 : 0, most = is_nv ? 6 * 448 : HUGE_VAL;
    for (std::size_t i = 0; i < right.size(); ++i) {
      if (!is_in[i / 1408]) continue;
      const double scale = format == token_format::bf16
                               ? 1e-30
                               : read_scale(format, found.scales, i / static_cast<std::size_t>(block));
      const double v = read_value(format, found.values, i) * (format == token_format::bf16 ? 1 : scale);
      const auto r = std::clamp(static_cast<double>(right[i]), -most, most);
      ASSERT_LE(std::fabs(v - r), std::fabs(r) * (relative + 0x1p-14) + scale / 3 + absolute)
          << text(c) << ", value " << i;
    }
    EXPECT_TRUE(found == on_gpu(c, in)) << "two runs differ";
  }
}

}  // namespace
}  // namespace baton::test
