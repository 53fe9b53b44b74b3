#pragma once
// Rows of an operand that lie where a list says.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace baton::test {

/// Rows of A wherever a list says: the last one first, with `gap` bytes behind each, and their scales there too.
template <class Value>
struct listed_rows {
  std::vector<std::int32_t> list{};
  std::vector<std::byte> bytes{};
  int row_bytes, scales_at, count;
  bool has_scales;

  listed_rows(const std::vector<Value>& a, const std::vector<float>& scales, int rows, int k)
      : scales_at{(k * static_cast<int>(sizeof(Value)) + 15) / 16 * 16},
        count{rows},
        has_scales{!scales.empty()} {
    const int blocks = scales.empty() ? 0 : static_cast<int>(scales.size()) / std::max(rows, 1);
    row_bytes = scales_at + (blocks * 4 + 15) / 16 * 16 + 16;
    bytes.assign(static_cast<std::size_t>(row_bytes) * static_cast<std::size_t>(rows + 1), std::byte{0xff});
    const auto values = static_cast<std::size_t>(k), of_row = static_cast<std::size_t>(blocks);
    for (int r = 0; r < rows; ++r) {
      list.push_back(rows - 1 - r);
      std::byte* to = data() + static_cast<std::ptrdiff_t>(rows - 1 - r) * row_bytes;
      const auto row = static_cast<std::size_t>(r);
      if (k > 0) std::memcpy(to, &a[row * values], values * sizeof(Value));
      if (blocks > 0) std::memcpy(to + scales_at, &scales[row * of_row], of_row * sizeof(float));
    }
  }
  std::byte* data() {
    const auto at = reinterpret_cast<std::uintptr_t>(bytes.data());
    return bytes.data() + ((at + 15) / 16 * 16 - at);
  }
  /// `p` finds its rows of A here: a problem as users give it, or what a kernel takes.
  template <class Problem>
  void give_to(Problem& p) {
    p.a = reinterpret_cast<const Value*>(data());
    p.num_a_rows = count;
    p.a_row_bytes = row_bytes;
    if constexpr (requires { p.a_list; })
      p.a_list = list.data();
    else
      p.a_rows = list.data();
    if constexpr (requires { p.a_scales; })
      if (has_scales) p.a_scales = reinterpret_cast<const float*>(data() + scales_at);
    if constexpr (requires { p.a_scale_row; })
      if (has_scales) p.a_scale_row = row_bytes / static_cast<int>(sizeof(float));
  }
};

}  // namespace baton::test
