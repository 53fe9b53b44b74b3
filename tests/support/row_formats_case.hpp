#pragma once
// Rows in some format on any world, and what they have to be: rows in ranges, one value of each in a block of its own magnitude.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "baton/device_buffer.hpp"
#include "baton/quantise.hpp"
#include "tests/support/block_oracle.hpp"

namespace baton::test {

enum class rows_from { bf16, fp32, silu };

struct rows_case {
  rows_from from = rows_from::bf16;
  token_format format = token_format::mxfp8;
  scale_layout layout = scale_layout::row_major;
  int columns = 256;
  std::vector<std::int32_t> counts, firsts;  // without: all rows
  int max_rows = 0;
  float tensor_scale = 1.0f;
  int num_sms = 0;
};

inline std::string text(const rows_case& c) {
  return std::string{c.from == rows_from::bf16   ? "bf16"
                     : c.from == rows_from::fp32 ? "fp32"
                                                 : "silu"} +
         " to " + name(c.format) + ", " + name(c.layout) + ", " + std::to_string(c.columns) + " columns";
}

/// Bytes as they came out.
struct rows_result {
  std::vector<std::uint8_t> values, scales;
  friend bool operator==(const rows_result&, const rows_result&) = default;
};

constexpr std::uint8_t untouched = 0xa5;

class rows_run {
 public:
  rows_run(const world& where, const rows_case& c) : where_{where}, c_{c}, facts_{facts_of(c.format)} {
    const auto rows = static_cast<std::size_t>(c.max_rows);
    values_ = {where, rows * static_cast<std::size_t>(facts_.row_bytes(c.columns))};
    scales_ = {where, static_cast<std::size_t>(places().count() * facts_.scale_bytes)};
    counts_ = {where, c.counts};
    firsts_ = {where, c.firsts};
    tensor_scale_ = {where, std::vector<float>{c.tensor_scale}};
  }

  /// `in` as the case's source has it: [max_rows, columns], or with silu [max_rows, 2 * columns].
  rows_result operator()(const std::vector<float>& in) {
    values_.fill_async(untouched);
    scales_.fill_async(untouched);
    const row_selection rows{c_.max_rows, c_.counts.empty() ? nullptr : counts_.data(),
                             c_.firsts.empty() ? nullptr : firsts_.data(), static_cast<int>(c_.counts.size()),
                             c_.num_sms};
    const formatted_rows out{c_.format, values_.data(), scales_.data(), c_.layout,
                             c_.tensor_scale == 1.0f ? nullptr : tensor_scale_.data()};
    if (c_.from == rows_from::fp32) {
      const device_buffer<float> from{where_, in};
      quantise(where_, from.data(), c_.columns, rows, out);
    } else {
      std::vector<bfloat16> narrow;
      for (const float v : in) narrow.emplace_back(v);
      const device_buffer<bfloat16> from{where_, narrow};
      if (c_.from == rows_from::bf16)
        quantise(where_, from.data(), c_.columns, rows, out);
      else
        fused_silu(where_, from.data(), c_.columns, rows, out);
    }
    return {values_.to_host(), scales_.to_host()};
  }

  scale_places places() const { return {c_.layout, c_.max_rows, facts_.row_scales(c_.columns)}; }

 private:
  world where_;
  rows_case c_;
  format_facts facts_;
  device_buffer<std::uint8_t> values_, scales_;
  device_buffer<std::int32_t> counts_, firsts_;
  device_buffer<float> tensor_scale_;
};

/// silu(gate) * up in fp32, as the rules have it.
inline std::vector<float> activated(const rows_case& c, const std::vector<float>& in) {
  const auto columns = static_cast<std::size_t>(c.columns);
  std::vector<float> out;
  for (std::size_t r = 0; r < static_cast<std::size_t>(c.max_rows); ++r) {
    for (std::size_t i = 0; i < columns; ++i) {
      const float gate = in[2 * r * columns + i], up = in[(2 * r + 1) * columns + i];
      out.push_back(gate / (1.0f + std::exp(-gate)) * up);
    }
  }
  return out;
}

/// Whether row r is in a range.
inline std::vector<bool> rows_in_ranges(const rows_case& c) {
  std::vector<bool> is_in(static_cast<std::size_t>(c.max_rows), c.counts.empty());
  for (std::size_t i = 0; i < c.counts.size(); ++i) {
    const int first = c.firsts.empty() ? 0 : c.firsts[i];
    for (int r = 0; r < c.counts[i]; ++r)
      if (first + r >= 0 && first + r < c.max_rows) is_in[static_cast<std::size_t>(first + r)] = true;
  }
  return is_in;
}

/// Values of blocks of very different magnitudes, some zeros, one infinity and one NaN.
inline std::vector<float> uneven_values(const rows_case& c, std::uint32_t seed) {
  std::mt19937 random{seed};
  std::normal_distribution<float> normal;
  const auto n = static_cast<std::size_t>(c.max_rows) * static_cast<std::size_t>(c.columns) *
                 (c.from == rows_from::silu ? 2 : 1);
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t block = i / 16;
    values[i] = block % 11 == 7 ? 0.0f : std::ldexp(normal(random), static_cast<int>(block * 7 % 19) - 9);
    if (c.from != rows_from::fp32) values[i] = static_cast<float>(bfloat16{values[i]});
  }
  if (n > 400 && c.from != rows_from::silu) {
    values[n / 3] = std::numeric_limits<float>::infinity();
    values[n / 2] = -std::numeric_limits<float>::quiet_NaN();
  }
  return values;
}

/// The first thing that is not as the rules say; empty: all right. `exact` [max_rows, columns] is what was to be stored, in fp32.
inline std::string first_wrong(const rows_case& c, const std::vector<float>& exact,
                               const rows_result& found) {
  const format_facts facts = facts_of(c.format);
  const scale_places places{c.layout, c.max_rows, facts.row_scales(c.columns)};
  const std::vector<bool> is_in = rows_in_ranges(c);
  std::vector<bool> has_scale(static_cast<std::size_t>(places.count()));
  const auto columns = static_cast<std::size_t>(c.columns),
             row_bytes = static_cast<std::size_t>(facts.row_bytes(c.columns));
  for (std::size_t r = 0; r < is_in.size(); ++r) {
    if (!is_in[r]) {
      for (std::size_t i = 0; i < row_bytes; ++i)
        if (found.values[r * row_bytes + i] != untouched) return "row " + std::to_string(r) + " was touched";
      continue;
    }
    const std::size_t block = facts.block > 0 ? static_cast<std::size_t>(facts.block) : columns;
    for (std::size_t b = 0; b < columns / block; ++b) {
      const auto begin = exact.begin() + static_cast<std::ptrdiff_t>(r * columns + b * block);
      const std::vector<float> x{begin, begin + static_cast<std::ptrdiff_t>(block)};
      const std::string where = "row " + std::to_string(r) + ", block " + std::to_string(b) + ": ";
      if (facts.block > 0) {
        const auto at = static_cast<std::size_t>(places.at(static_cast<int>(r), static_cast<int>(b)));
        has_scale[at] = true;
        const double scale = read_scale(c.format, found.scales, at),
                     right = expected(c.format, x, c.tensor_scale).scale;
        if (!(scale == right || (std::isnan(scale) && std::isnan(right))))
          return where + "scale " + std::to_string(scale) + ", not " + std::to_string(right);
      }
      const std::vector<double> values = expected(c.format, x, c.tensor_scale).values;
      for (std::size_t i = 0; i < block; ++i) {
        const double v = read_value(c.format, found.values, r * columns + b * block + i);
        if (!(v == values[i] || (std::isnan(v) && std::isnan(values[i]))))
          return where + "value " + std::to_string(i) + " is " + std::to_string(v) + ", not " +
                 std::to_string(values[i]);
      }
    }
  }
  for (std::size_t i = 0; i < found.scales.size(); ++i)
    if (!has_scale[i / static_cast<std::size_t>(facts.scale_bytes)] && found.scales[i] != untouched)
      return "scale byte " + std::to_string(i) + " belongs to no row and was touched";
  return {};
}

}  // namespace baton::test
