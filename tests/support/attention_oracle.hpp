#pragma once
// What attention must give by the formula of attention.hpp, in double precision, how far off its result may be, and comparing the
// two. Nothing here shares code with what it tests. Rows of a head are worked out once, however many results are compared with
// them, and go along arrays: element by element they took longer than the kernels on the CPU machine.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/whole_arrays.hpp"
#include "tests/support/attention_case.hpp"

namespace baton::test {

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

/// Eight values of a row, which add and multiply as one, however little the compiler optimises.
using eight_doubles = double __attribute__((__vector_size__(64), __aligned__(8), __may_alias__));

struct double_product {
  double sum = 0, magnitude = 0;  // of its terms, and of their magnitudes
};
BATON_READS_WHOLE_ARRAYS inline double_product product_of(const double* a, const double* b, std::size_t n) {
  look_at(a, n);
  look_at(b, n);
  eight_doubles sums{}, absolute{};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const eight_doubles terms =
        *reinterpret_cast<const eight_doubles*>(a + i) * *reinterpret_cast<const eight_doubles*>(b + i);
    sums += terms;
    absolute += terms < 0 ? -terms : terms;
  }
  double_product all;
  for (std::size_t lane = 0; lane < 8; ++lane) {
    all.sum += sums[lane];
    all.magnitude += absolute[lane];
  }
  for (; i < n; ++i) {
    all.sum += a[i] * b[i];
    all.magnitude += std::abs(a[i] * b[i]);
  }
  return all;
}

/// out[i] += weight * v[i]
BATON_READS_WHOLE_ARRAYS inline void add_row(double* out, const double* v, double weight, std::size_t n) {
  look_at(out, n);
  look_at(v, n);
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8)
    *reinterpret_cast<eight_doubles*>(out + i) += weight * *reinterpret_cast<const eight_doubles*>(v + i);
  for (; i < n; ++i) out[i] += weight * v[i];
}

/// bound[i] += by_distance * |v[i] - out[i]| + by_magnitude * |v[i]|
BATON_READS_WHOLE_ARRAYS inline void add_bounds(double* bound, const double* out, const double* v,
                                                double by_distance, double by_magnitude, std::size_t n) {
  look_at(bound, n);
  look_at(out, n);
  look_at(v, n);
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const eight_doubles values = *reinterpret_cast<const eight_doubles*>(v + i),
                        apart = values - *reinterpret_cast<const eight_doubles*>(out + i);
    *reinterpret_cast<eight_doubles*>(bound + i) +=
        by_distance * (apart < 0 ? -apart : apart) + by_magnitude * (values < 0 ? -values : values);
  }
  for (; i < n; ++i) bound[i] += by_distance * std::abs(v[i] - out[i]) + by_magnitude * std::abs(v[i]);
}

struct expected_logit {
  const double* v;  // a sink's is 0
  double x, error;
  double weight = 0;
};

}  // namespace attention_detail

/// The rows of a case as they must come out. What it has worked out it keeps, and so does it the keys of the head and sequence
/// that were asked for last, in double precision.
template <class Value>
class attention_oracle {
 public:
  attention_oracle(const attention_case<Value>& of, const attention_rounding& rounding)
      : case_{of}, rounding_{rounding}, zeros_(size(of.shape.head_dim)) {}

  const attention_case<Value>& of() const { return case_; }
  const expected_attention& expected(int row, int head) {
    const auto [at, is_new] = known_.try_emplace({row, head});
    if (is_new) at->second = work_out(row, head);
    return at->second;
  }

 private:
  using logits = std::vector<attention_detail::expected_logit>;

  static std::size_t size(int n) { return static_cast<std::size_t>(n); }
  std::vector<double> in_double(const std::vector<Value>& all, std::size_t from) const {
    std::vector<double> row(size(case_.shape.head_dim));
    for (std::size_t i = 0; i < row.size(); ++i)
      row[i] = static_cast<double>(static_cast<float>(all[from + i]));
    return row;
  }

  void take_keys(int sequence, int kv_head) {
    if (sequence == sequence_ && kv_head == kv_head_) return;
    sequence_ = sequence;
    kv_head_ = kv_head;
    k_.clear();
    v_.clear();
    for (int key = 0; key < case_.shape.k_lens[size(sequence)]; ++key) {
      const std::size_t at = case_.k_at(case_.cu_k[size(sequence)] + key, kv_head);
      k_.push_back(in_double(case_.k, at));
      v_.push_back(in_double(case_.v, at));
    }
  }

  /// The logits of a row. Those of keys are off by the product's roundings, and then by the scale's and a cap's: 2^-22 and what
  /// tanh is, of themselves (x / cap and its tanh vary less than x does).
  logits logits_of(int row, int head) {
    const attention_shape& s = case_.shape;
    const int b = case_.sequence_of(row);
    take_keys(b, head / (s.heads / s.kv_heads));
    const std::vector<double> q = in_double(case_.q, case_.q_at(row, head));
    const double scale = s.scale(), cap = s.options.softcap;
    logits all;
    for (int key = 0; key < s.k_lens[size(b)]; ++key) {
      if (!s.sees(b, row - case_.cu_q[size(b)], key)) continue;
      const auto terms = attention_detail::product_of(q.data(), k_[size(key)].data(), q.size());
      const double x = cap == 0 ? scale * terms.sum : cap * std::tanh(scale * terms.sum / cap);
      all.push_back({v_[size(key)].data(), x,
                     std::abs(scale) * terms.magnitude * rounding_.logit +
                         std::abs(x) * (0x1p-22 + (cap == 0 ? 0 : rounding_.tanh))});
    }
    const double sink = s.sinks ? case_.sinks[size(head)] : 0;
    if (s.sinks && std::isfinite(sink) && !all.empty()) all.push_back({zeros_.data(), sink, 0});
    return all;
  }

  /// How far off: let weights be w, and each be off by at most e of itself, which is its logit's error, two roundings of its
  /// distance from the largest logit, an exp, and an exp and a rounding each time that a larger logit is met, at most once every
  /// 16 keys. Then out = sum of w v is off by the sum of w e |v - out|, divided by 1 - sum of w e, by the weights' own rounding,
  /// and by those of two sums of n values, a product and a sum each, of w |v| and of out; the logarithm by the sum of w e and one
  /// of these sums. Products of two errors are within a hundredth.
  expected_attention work_out(int row, int head) {
    const attention_rounding& r = rounding_;
    const std::size_t dim = size(case_.shape.head_dim);
    expected_attention e{.out = std::vector<double>(dim), .out_bound = std::vector<double>(dim)};
    logits seen = logits_of(row, head);
    if (seen.empty()) return e;
    double largest = seen[0].x, sum = 0, error = 0;
    for (const auto& l : seen) largest = std::max(largest, l.x);
    for (const auto& l : seen) sum += std::exp(l.x - largest);
    e.lse = largest + std::log(sum);
    const double n = static_cast<double>(seen.size()), raises = n / 16 + 3, sums = (n + raises) * 0x1p-23;
    for (auto& l : seen) {
      l.weight = std::exp(l.x - e.lse);
      l.error = std::exp(l.error + 0x1p-22 * (std::abs(l.x) + std::abs(largest))) - 1 +
                (raises + 1) * (r.exp + 0x1p-23);
      error += l.weight * l.error;
      attention_detail::add_row(e.out.data(), l.v, l.weight, dim);
    }
    for (const auto& l : seen)
      attention_detail::add_bounds(e.out_bound.data(), e.out.data(), l.v, l.weight * l.error,
                                   l.weight * (r.weight + sums) + (r.weight_least + 0x1p-126) / sum, dim);
    const double second_order = 1.01 / (1 - std::min(error, 0.5));
    for (std::size_t i = 0; i < dim; ++i)
      e.out_bound[i] = second_order * (e.out_bound[i] + sums * std::abs(e.out[i]));
    e.lse_bound = second_order * (error + sums) +
                  0x1p-22 * (std::abs(largest) + std::abs(std::log(sum)) + std::abs(e.lse));
    return e;
  }

  const attention_case<Value>& case_;
  attention_rounding rounding_;
  std::vector<double> zeros_;
  std::map<std::pair<int, int>, expected_attention> known_;  // by row and head
  int sequence_ = -1, kv_head_ = -1;
  std::vector<std::vector<double>> k_, v_;  // of those
};

/// A case for products of tensor cores, and what must come of it.
template <class Value>
struct known_attention {
  attention_case<Value> of;
  attention_oracle<Value> oracle;

  known_attention(attention_shape s, int head_dim, std::uint32_t seed)
      : of{make_attention<Value>(with_dim(std::move(s), head_dim), seed)},
        oracle{of, tensor_core_rounding<Value>(head_dim)} {}
  known_attention(const known_attention&) = delete;

 private:
  static attention_shape with_dim(attention_shape s, int head_dim) {
    s.head_dim = head_dim;
    return s;
  }
};

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
attention_errors errors_of(attention_oracle<Value>& oracle, const Value* out, const float* lse,
                           std::vector<int> rows = {}) {
  const attention_case<Value>& c = oracle.of();
  attention_errors found;
  if (rows.empty()) {
    rows.resize(static_cast<std::size_t>(c.total_q()));
    std::iota(rows.begin(), rows.end(), 0);
  }
  for (int head = 0; head < c.shape.heads; ++head)
    for (const int row : rows) {
      const std::string where =
          text(c.shape) + ": row " + std::to_string(row) + ", head " + std::to_string(head);
      const Value* const out_row = out == nullptr ? nullptr : out + c.q_at(row, head);
      const float* const row_lse = lse == nullptr ? nullptr : lse + std::ptrdiff_t{head} * c.total_q() + row;
      if (c.sequence_of(row) < c.shape.batch()) {
        const expected_attention& right = oracle.expected(row, head);
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

template <class Value>
attention_errors errors_of(const attention_case<Value>& c, const Value* out, const float* lse,
                           const attention_rounding& r, const std::vector<int>& rows = {}) {
  attention_oracle<Value> oracle{c, r};
  return errors_of(oracle, out, lse, rows);
}

}  // namespace baton::test
