#pragma once
// Attention's inputs, and what must come out by the formula of attention.hpp in double precision: for both devices, and for
// kernels on the CPU machine. Nothing here shares code with what it tests.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <type_traits>
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

/// How whoever computes it rounds, relative to what is rounded.
struct attention_rounding {
  double logit = 0;       // a product of q and k, of the sum of its terms' magnitudes
  double tanh = 0x1p-22;  // two units in the last place
  double exp = 0x1p-22;   // the same
  double weight = 0;      // a weight before it multiplies v
  double weight_least =
      0;  // and where it is next to nothing, beside the largest; fp32 ends at 2^-126 of that
};

/// The CPU's products are 16 sums of head_dim / 16 terms that are added up in four steps; each term and addition is rounded to
/// nearest.
inline attention_rounding cpu_rounding(int head_dim) {
  return {.logit = (head_dim / 16 + 5) * 0x1p-24};
}
/// A tensor core's are summed in whatever order, and truncated each time; weights are rounded to Value.
template <class Value>
attention_rounding tensor_core_rounding(int head_dim) {
  const bool fp16 = std::is_same_v<Value, float16>;
  return {.logit = head_dim * 0x1p-23, .weight = fp16 ? 0x1p-11 : 0x1p-8, .weight_least = fp16 ? 0x1p-25 : 0};
}

/// A row of one head in double precision, and how far off fp32 may bring it.
struct expected_attention {
  double lse = -std::numeric_limits<double>::infinity(), lse_bound = 0;
  std::vector<double> out, out_bound;  // [head_dim]; the bound is without the rounding of out itself
};

namespace attention_detail {

struct expected_logit {
  int key;  // row of k; -1: a sink, whose v is 0
  double x, error;
  double weight = 0;
  std::vector<double> v{};
};

template <class Value>
std::vector<double> value_row(const attention_case<Value>& c, int key, int head) {
  std::vector<double> v(static_cast<std::size_t>(c.shape.head_dim));
  if (key < 0) return v;
  const Value* from = c.v.data() + c.k_at(key, head / (c.shape.heads / c.shape.kv_heads));
  for (double& x : v) x = static_cast<double>(static_cast<float>(*from++));
  return v;
}

/// The logits of a row. Those of keys are off by the product's roundings, and then by the scale's and a cap's: 2^-22 and what
/// tanh is, of themselves (x / cap and its tanh vary less than x does).
template <class Value>
std::vector<expected_logit> logits_of(const attention_case<Value>& c, int row, int head,
                                      const attention_rounding& r) {
  const attention_shape& s = c.shape;
  const int b = c.sequence_of(row), kv_head = head / (s.heads / s.kv_heads);
  const double scale = s.scale(), cap = s.options.softcap;
  std::vector<expected_logit> all;
  for (int key = 0; key < s.k_lens[static_cast<std::size_t>(b)]; ++key) {
    if (!s.sees(b, row - c.cu_q[static_cast<std::size_t>(b)], key)) continue;
    const int at = c.cu_k[static_cast<std::size_t>(b)] + key;
    const Value *q = c.q.data() + c.q_at(row, head), *k = c.k.data() + c.k_at(at, kv_head);
    double sum = 0, magnitude = 0;
    for (int i = 0; i < s.head_dim; ++i) {
      const double term =
          static_cast<double>(static_cast<float>(q[i])) * static_cast<double>(static_cast<float>(k[i]));
      sum += term;
      magnitude += std::abs(term);
    }
    const double x = cap == 0 ? scale * sum : cap * std::tanh(scale * sum / cap);
    all.push_back(
        {at, x, std::abs(scale) * magnitude * r.logit + std::abs(x) * (0x1p-22 + (cap == 0 ? 0 : r.tanh))});
  }
  const double sink = s.sinks ? c.sinks[static_cast<std::size_t>(head)] : 0;
  if (s.sinks && std::isfinite(sink) && !all.empty()) all.push_back({-1, sink, 0});
  return all;
}

}  // namespace attention_detail

/// How far off: let weights be w, and each be off by at most e of itself, which is its logit's error, two roundings of its
/// distance from the largest logit, an exp, and an exp and a rounding each time that a larger logit is met, at most once every 16
/// keys. Then out = sum of w v is off by the sum of w e |v - out|, divided by 1 - sum of w e, by the weights' own rounding, and
/// by those of two sums of n values, a product and a sum each, of w |v| and of out; the logarithm by the sum of w e and one of
/// these sums. Products of two errors are within a hundredth.
template <class Value>
expected_attention expected_of(const attention_case<Value>& c, int row, int head,
                               const attention_rounding& r) {
  const auto dim = static_cast<std::size_t>(c.shape.head_dim);
  expected_attention e{.out = std::vector<double>(dim), .out_bound = std::vector<double>(dim)};
  std::vector<attention_detail::expected_logit> logits = attention_detail::logits_of(c, row, head, r);
  if (logits.empty()) return e;
  double largest = logits[0].x, sum = 0, error = 0;
  for (const auto& l : logits) largest = std::max(largest, l.x);
  for (const auto& l : logits) sum += std::exp(l.x - largest);
  e.lse = largest + std::log(sum);
  const double n = static_cast<double>(logits.size()), raises = n / 16 + 3, sums = (n + raises) * 0x1p-23;
  for (auto& l : logits) {
    l.weight = std::exp(l.x - e.lse);
    l.error = std::exp(l.error + 0x1p-22 * (std::abs(l.x) + std::abs(largest))) - 1 +
              (raises + 1) * (r.exp + 0x1p-23);
    error += l.weight * l.error;
    l.v = attention_detail::value_row(c, l.key, head);
    for (std::size_t i = 0; i < dim; ++i) e.out[i] += l.weight * l.v[i];
  }
  const double second_order = 1.01 / (1 - std::min(error, 0.5));
  for (const auto& l : logits)
    for (std::size_t i = 0; i < dim; ++i)
      e.out_bound[i] +=
          l.weight * (l.error * std::abs(l.v[i] - e.out[i]) + (r.weight + sums) * std::abs(l.v[i])) +
          (r.weight_least + 0x1p-126) / sum * std::abs(l.v[i]);
  for (std::size_t i = 0; i < dim; ++i)
    e.out_bound[i] = second_order * (e.out_bound[i] + sums * std::abs(e.out[i]));
  e.lse_bound = second_order * (error + sums) +
                0x1p-22 * (std::abs(largest) + std::abs(std::log(sum)) + std::abs(e.lse));
  return e;
}

/// What a comparison found. `worst`: of all values, the largest error as a share of its bound. `rms`: the errors of `out`, as
/// root mean square, as a share of that of the right values: the measure by which kernels are told apart.
struct attention_errors {
  std::string first_wrong{};
  double worst = 0, squares = 0, right_squares = 0;

  double rms() const { return right_squares > 0 ? std::sqrt(squares / right_squares) : 0; }
  template <class Where>
  void look(double found, double right, double bound, Where where) {
    if (std::isinf(right) ? found == right : std::abs(found - right) <= bound) {
      if (bound > 0) worst = std::max(worst, std::abs(found - right) / bound);
    } else if (first_wrong.empty()) {
      first_wrong = where() + " = " + std::to_string(found) + ", expected " + std::to_string(right) + " +- " +
                    std::to_string(bound);
    }
  }
  template <class Where>
  void untouched(bool is, Where where) {
    if (!is && first_wrong.empty()) first_wrong = where() + " was written";
  }
};

/// Rounding of a value of the output itself, whose smallest are 2^-24 or 2^-133 apart.
template <class Value>
double own_rounding(double value) {
  return std::is_same_v<Value, float16> ? std::abs(value) * 0x1p-11 + 0x1p-25
                                        : std::abs(value) * 0x1p-8 + 0x1p-134;
}

namespace attention_detail {

template <class Value>
void compare_out(attention_errors& to, const expected_attention& right, const Value* out,
                 const std::string& where) {
  for (std::size_t i = 0; i < right.out.size(); ++i) {
    const auto x = static_cast<double>(static_cast<float>(out[i]));
    const double bound =
        right.out_bound[i] + own_rounding<Value>(std::abs(right.out[i]) + right.out_bound[i]);
    to.look(x, right.out[i], bound, [&] { return where + ": out[" + std::to_string(i) + "]"; });
    to.squares += (x - right.out[i]) * (x - right.out[i]);
    to.right_squares += right.out[i] * right.out[i];
  }
}

}  // namespace attention_detail

/// `out` [total_q, heads, head_dim] and `lse` [heads, total_q] against the formula; null: not looked at. `rows`: which; empty:
/// all. Rows of no sequence have to be as they were: every bit set.
template <class Value>
attention_errors errors_of(const attention_case<Value>& c, const Value* out, const float* lse,
                           const attention_rounding& r, std::vector<int> rows = {}) {
  attention_errors found;
  if (rows.empty()) {
    rows.resize(static_cast<std::size_t>(c.total_q()));
    std::iota(rows.begin(), rows.end(), 0);
  }
  for (const int row : rows)
    for (int head = 0; head < c.shape.heads; ++head) {
      const std::string where =
          text(c.shape) + ": row " + std::to_string(row) + ", head " + std::to_string(head);
      const Value* const out_row = out == nullptr ? nullptr : out + c.q_at(row, head);
      const float* const row_lse = lse == nullptr ? nullptr : lse + std::ptrdiff_t{head} * c.total_q() + row;
      if (c.sequence_of(row) < c.shape.batch()) {
        const expected_attention right = expected_of(c, row, head, r);
        if (out != nullptr) attention_detail::compare_out(found, right, out_row, where);
        if (lse != nullptr)
          found.look(static_cast<double>(*row_lse), right.lse, right.lse_bound,
                     [&] { return where + ": lse"; });
        continue;
      }
      for (int i = 0; out != nullptr && i < c.shape.head_dim; ++i)
        found.untouched(out_row[i].bits == 0xffff, [&] { return where + ": out"; });
      if (lse != nullptr)
        found.untouched(std::bit_cast<std::uint32_t>(*row_lse) == 0xffffffffu,
                        [&] { return where + ": lse"; });
    }
  return found;
}

}  // namespace baton::test
