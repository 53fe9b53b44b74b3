#pragma once
// Attention's inputs: for both devices, and for kernels on the CPU machine.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "baton/attention.hpp"

namespace baton::test {

struct attention_shape {
  std::vector<int> q_lens, k_lens;  // of each sequence
  int heads = 1, kv_heads = 1, head_dim = 64;
  attention_options options{};  // without sinks
  bool sinks = false;
  float spread = 1;  // of q: logits are about as large, with the usual scale
  int tail = 0;      // rows of no sequence behind the last

  int batch() const { return static_cast<int>(q_lens.size()); }
  float scale() const { return options.scale.value_or(1 / std::sqrt(static_cast<float>(head_dim))); }
  /// As attention_options says, word by word.
  bool sees(int sequence, int row, int key) const {
    const auto b = static_cast<std::size_t>(sequence);
    const int level = row + k_lens[b] - q_lens[b];
    if (options.window_left >= 0 && key < level - options.window_left) return false;
    if (options.causal) return key <= level;
    return options.window_right < 0 || key <= level + options.window_right;
  }
};

inline std::string text(const attention_shape& s) {
  std::string lengths;
  for (std::size_t b = 0; b < s.q_lens.size(); ++b)
    lengths += std::to_string(s.q_lens[b]) + "x" + std::to_string(s.k_lens[b]) + " ";
  const attention_options& o = s.options;
  return lengths + "heads " + std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) + " of " +
         std::to_string(s.head_dim) + (o.causal ? ", causal" : "") + ", window " +
         std::to_string(o.window_left) + ":" + std::to_string(o.window_right) + ", scale " +
         std::to_string(s.scale()) + ", cap " + std::to_string(o.softcap) + (s.sinks ? ", sinks" : "");
}

template <class Value>
struct attention_case {
  attention_shape shape;
  std::vector<std::int32_t> cu_q{0}, cu_k{0};
  std::vector<Value> q, k, v;  // [total, heads, head_dim]; rows of k and v that nobody sees are NaN
  std::vector<float> sinks;

  int total_q() const { return cu_q.back() + shape.tail; }
  int total_k() const { return cu_k.back() + shape.tail; }
  std::size_t q_at(int row, int head) const { return at(row, head, shape.heads); }
  std::size_t k_at(int row, int head) const { return at(row, head, shape.kv_heads); }
  /// Which sequence a row of q is of; batch(): of none.
  int sequence_of(int row) const {
    return static_cast<int>(std::upper_bound(cu_q.begin(), cu_q.end(), row) - cu_q.begin()) - 1;
  }
  bool is_seen(int sequence, int key) const {
    for (int row = 0; row < shape.q_lens[static_cast<std::size_t>(sequence)]; ++row)
      if (shape.sees(sequence, row, key)) return true;
    return false;
  }

 private:
  std::size_t at(int row, int head, int heads) const {
    return (static_cast<std::size_t>(row) * static_cast<std::size_t>(heads) +
            static_cast<std::size_t>(head)) *
           static_cast<std::size_t>(shape.head_dim);
  }
};

/// Every value of row `row` of k and v becomes `value`.
template <class Value>
void overwrite_key(attention_case<Value>& c, int row, float value) {
  std::fill(c.k.begin() + static_cast<std::ptrdiff_t>(c.k_at(row, 0)),
            c.k.begin() + static_cast<std::ptrdiff_t>(c.k_at(row + 1, 0)), Value{value});
  std::fill(c.v.begin() + static_cast<std::ptrdiff_t>(c.k_at(row, 0)),
            c.v.begin() + static_cast<std::ptrdiff_t>(c.k_at(row + 1, 0)), Value{value});
}

/// Normally distributed values.
template <class Value>
attention_case<Value> make_attention(const attention_shape& s, std::uint32_t seed) {
  attention_case<Value> c{.shape = s};
  for (const int n : s.q_lens) c.cu_q.push_back(c.cu_q.back() + n);
  for (const int n : s.k_lens) c.cu_k.push_back(c.cu_k.back() + n);
  c.q.resize(c.q_at(c.total_q(), 0));
  c.k.resize(c.k_at(c.total_k(), 0));
  c.v.resize(c.k.size());
  std::mt19937 random{seed};
  std::normal_distribution<float> normal;
  for (Value& x : c.q) x = Value{s.spread * normal(random)};
  for (Value& x : c.k) x = Value{normal(random)};
  for (Value& x : c.v) x = Value{normal(random)};
  for (int h = 0; s.sinks && h < s.heads; ++h) c.sinks.push_back(2 * normal(random));
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (int b = 0; b < s.batch(); ++b)
    for (int key = 0; key < s.k_lens[static_cast<std::size_t>(b)]; ++key)
      if (!c.is_seen(b, key)) overwrite_key(c, c.cu_k[static_cast<std::size_t>(b)] + key, nan);
  for (int row = c.cu_k.back(); row < c.total_k(); ++row) overwrite_key(c, row, nan);
  return c;
}

}  // namespace baton::test
