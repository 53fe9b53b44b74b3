#pragma once
// Where combine leaves its results. An output is called by one lane with 8 (per_rank: or 4) consecutive columns of a token, as
// any element-wise callable is: out(x, token, column, values). A reducing output has is_reduced; the other gets every
// (token, k) row as it came.
#include <bit>

#include "base/convert.hpp"
#include "exec/exec.hpp"

namespace baton::ep {

struct store_fp32 {
  static constexpr bool is_reduced = true;
  float* out;  // [T, H]
  int hidden;
  template <class X, int n>
  BATON_FN void operator()(X& x, int token, int column, const float (&values)[n]) const {
    float* at = out + static_cast<std::int64_t>(token) * hidden + column;
    for (int half = 0; half < n / 4; ++half) {
      const float* v = values + 4 * half;
      x.write(reinterpret_cast<vec16*>(at) + half,
              vec16{{std::bit_cast<std::uint32_t>(v[0]), std::bit_cast<std::uint32_t>(v[1]),
                     std::bit_cast<std::uint32_t>(v[2]), std::bit_cast<std::uint32_t>(v[3])}});
    }
  }
};

struct store_bf16 {
  static constexpr bool is_reduced = true;
  bfloat16* out;  // [T, H]
  int hidden;
  template <class X>
  BATON_FN void operator()(X& x, int token, int column, const float (&v)[8]) const {
    auto* at = reinterpret_cast<vec16*>(out + static_cast<std::int64_t>(token) * hidden + column);
    x.write(at, vec16{{pack_bf16(v[0], v[1]), pack_bf16(v[2], v[3]), pack_bf16(v[4], v[5]),
                       pack_bf16(v[6], v[7])}});
  }
  template <class X>
  BATON_FN void operator()(X& x, int token, int column, const float (&v)[4]) const {
    auto* at = reinterpret_cast<std::uint64_t*>(out + static_cast<std::int64_t>(token) * hidden + column);
    x.write(at, static_cast<std::uint64_t>(pack_bf16(v[2], v[3])) << 32 | pack_bf16(v[0], v[1]));
  }
};

struct store_unreduced {
  static constexpr bool is_reduced = false;
  bfloat16* out;  // [T, K, H]
  int hidden, top_k;
  template <class X>
  BATON_FN void operator()(X& x, int token, int topk_slot, int column, const vec16& values) const {
    const std::int64_t row = static_cast<std::int64_t>(token) * top_k + topk_slot;
    x.write(reinterpret_cast<vec16*>(out + row * hidden + column), values);
  }
};

}  // namespace baton::ep
