#pragma once
// Cases of attention whose keys lie in pages as e4m3.
#include <utility>
#include <vector>

#include "tests/support/attention_call.hpp"

namespace baton::test {

/// What e4m3 are multiplied by: one for all heads, or one for each; none: 1. Powers of two, so that what comes of it is a Value.
struct cache_factors {
  // Not constexpr: g++ 12 with a sanitizer works out what is made of constants, and then refuses memory that it would have.
  cache_factors() : k{1}, v{1} {}
  cache_factors(std::vector<float> of_k, std::vector<float> of_v) : k{std::move(of_k)}, v{std::move(of_v)} {}

  std::vector<float> k, v;

  bool by_head() const { return k.size() > 1; }
};
inline float factor_of(const std::vector<float>& factors, int head) {
  return factors.empty() ? 1.0f : factors[factors.size() > 1 ? static_cast<std::size_t>(head) : 0];
}
/// One for each head, for k from 2^-1 up and for v from 2^2 down.
inline cache_factors factors_by_head(int kv_heads) {
  cache_factors f{{}, {}};
  for (int h = 0; h < kv_heads; ++h)
    f.k.push_back(std::ldexp(1.0f, h % 4 - 1)), f.v.push_back(std::ldexp(1.0f, 2 - h % 5));
  return f;
}

/// Keys and values become what a cache of e4m3 has of them.
template <class Value>
void round_to_e4m3(attention_case<Value>& c, const cache_factors& factors) {
  const auto round = [&](std::vector<Value>& values, const std::vector<float>& of) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float by =
          factor_of(of, static_cast<int>(i / static_cast<std::size_t>(c.shape.head_dim)) % c.shape.kv_heads);
      values[i] = Value{by * static_cast<float>(float8_e4m3{static_cast<float>(values[i]) / by})};
    }
  };
  round(c.k, factors.k), round(c.v, factors.v);
}

/// Pages of such a case; what is no number stays none.
template <class Value>
paged_keys<float8_e4m3> as_e4m3(const paged_keys<Value>& keys, const attention_shape& s,
                                const cache_factors& factors) {
  const auto convert = [&](const std::vector<Value>& values, const std::vector<float>& of) {
    std::vector<float8_e4m3> made(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const int row = static_cast<int>(i % keys.page_values / static_cast<std::size_t>(s.head_dim));
      const int head = keys.layout == kv_layout::nhd ? row % s.kv_heads : row / keys.page_size % s.kv_heads;
      made[i] = float8_e4m3{static_cast<float>(values[i]) / factor_of(of, head)};
    }
    return made;
  };
  return {keys.num_pages,
          keys.page_size,
          keys.max_pages,
          keys.layout,
          keys.page_values,
          convert(keys.k, factors.k),
          convert(keys.v, factors.v),
          keys.page_table,
          keys.seqlens};
}

/// What the call gives of a case that round_to_e4m3 has seen.
template <class Value>
attention_result<Value> e4m3_result(const world& w, const attention_case<Value>& c,
                                    const paged_keys<Value>& keys, const cache_factors& factors) {
  const device_buffer<float> k{w, factors.k}, v{w, factors.v};
  return paged_result(w, c, as_e4m3(keys, c.shape, factors), {}, [&](auto& p) {
    p.k_descale = k.data(), p.v_descale = v.data();
    p.descale_by_head = factors.by_head();
  });
}

}  // namespace baton::test
