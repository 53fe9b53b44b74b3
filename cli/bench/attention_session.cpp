#include "cli/bench/attention_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace baton::cli {
namespace {

const memory_use of_attention{"the heads", "ask for fewer, or shorter sequences"};
constexpr int checked_rows = 31;  // a prime: rows of all remainders

std::size_t values_of(const attention_size& s, int heads) {
  return static_cast<std::size_t>(s.batch) * static_cast<std::size_t>(s.length) *
         static_cast<std::size_t>(heads) * static_cast<std::size_t>(s.of.head_dim);
}

/// Half a unit in the last place of what is stored, relative.
template <class Value>
constexpr double unit_of = std::is_same_v<Value, float16> ? 0x1p-11 : 0x1p-8;

/// Where a row of a head begins, in a tensor with so many heads.
std::size_t place_of(const attention_size& s, int sequence, int row, int heads, int head) {
  const std::int64_t at = (std::int64_t{sequence} * s.length + row) * heads + head;
  return static_cast<std::size_t>(at * s.of.head_dim);
}

}  // namespace

template <class Value>
varlen_attention_problem<Value> problem_of(const attention_size& s) {
  varlen_attention_problem<Value> p;
  p.batch = s.batch;
  p.max_seqlen_q = p.max_seqlen_k = s.length;
  p.total_q = p.total_k = s.batch * s.length;
  p.heads = s.of.heads;
  p.kv_heads = s.of.kv_heads;
  p.head_dim = s.of.head_dim;
  p.options = s.options();
  return p;
}

template <class Value>
attention_session<Value>::attention_session(const world& world, const attention_size& s)
    : world_{world},
      size_{s},
      q_{world, values_of(s, s.of.heads), 1, of_attention},
      k_{world, values_of(s, s.of.kv_heads), 2, of_attention},
      v_{world, values_of(s, s.of.kv_heads), 3, of_attention},
      out_{world, values_of(s, s.of.heads), of_attention} {
  q_.random_values();
  k_.random_values();
  v_.random_values();
}

template <class Value>
varlen_attention_problem<Value> attention_session<Value>::problem() {
  auto p = problem_of<Value>(size_);
  p.q = q_.data();
  p.k = k_.data();
  p.v = v_.data();
  p.out = out_.data();
  return p;
}

/// A logit is off by head_dim roundings of 2^-23 of the sum of its terms' magnitudes; its weight by that, by two roundings of its
/// distance from the largest, an exp, and an exp each time that a larger logit is met, at most every 16 keys.
template <class Value>
auto attention_session<Value>::keys_of(int sequence, int row, int head) const -> std::vector<seen_key> {
  const auto dim = static_cast<std::size_t>(size_.of.head_dim);
  const double scale = 1 / std::sqrt(static_cast<double>(dim));
  std::vector<double> q(dim), k(dim);
  q_.read(place_of(size_, sequence, row, size_.of.heads, head), q);
  const int last = size_.mask == attention_mask::dense ? size_.length - 1 : row;
  const int first = size_.mask == attention_mask::window ? std::max(0, row - size_.of.window + 1) : 0;
  std::vector<seen_key> keys;
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int j = first; j <= last; ++j) {
    k_.read(place_of(size_, sequence, j, size_.of.kv_heads, head / (size_.of.heads / size_.of.kv_heads)), k);
    double product = 0, magnitude = 0;
    for (std::size_t i = 0; i < dim; ++i) {
      product += q[i] * k[i];
      magnitude += std::abs(q[i] * k[i]);
    }
    keys.push_back({j, scale * product, scale * magnitude * static_cast<double>(dim) * 0x1p-23});
    largest = std::max(largest, scale * product);
  }
  for (const seen_key& key : keys) sum += std::exp(key.weight - largest);
  const double raises = static_cast<double>(keys.size()) / 16 + 4;
  for (seen_key& key : keys) {
    key.error += 0x1p-21 * (std::abs(key.weight) + std::abs(largest) + raises);
    key.weight = std::exp(key.weight - largest) / sum;
  }
  return keys;
}

/// Beside the weights' errors there are those of two sums of as many values, of 2^-23 each. On CUDA weights are rounded to Value
/// before they multiply v; fp16's smallest are 2^-24 apart, beside a largest weight of 1. Products of errors are within a tenth.
template <class Value>
auto attention_session<Value>::expected(int sequence, int row, int head) const -> right_row {
  const auto dim = static_cast<std::size_t>(size_.of.head_dim);
  const bool on_gpu = world_.device() == device_kind::cuda;
  const std::vector<seen_key> keys = keys_of(sequence, row, head);
  const double sums = static_cast<double>(keys.size()) * 0x1p-23, rounded = on_gpu ? unit_of<Value> : 0,
               least = on_gpu && std::is_same_v<Value, float16> ? 0x1p-25 : 0;
  double error = sums;
  std::vector<double> v(dim);
  right_row right{std::vector<double>(dim), std::vector<double>(dim)};
  for (const seen_key& key : keys) {
    v_.read(
        place_of(size_, sequence, key.row, size_.of.kv_heads, head / (size_.of.heads / size_.of.kv_heads)),
        v);
    error += key.weight * key.error;
    for (std::size_t i = 0; i < dim; ++i) {
      right.out[i] += key.weight * v[i];
      right.bound[i] += (key.weight * (key.error + sums + rounded) + least) * std::abs(v[i]);
    }
  }
  for (std::size_t i = 0; i < dim; ++i)
    right.bound[i] = 1.1 * (right.bound[i] + error * std::abs(right.out[i]));
  return right;
}

template <class Value>
std::string attention_session<Value>::wrong_value(int sequence, int row, int head) const {
  const right_row right = expected(sequence, row, head);
  const std::size_t dim = right.out.size();
  const std::vector<Value> found =
      to_host(world_, out_.data() + place_of(size_, sequence, row, size_.of.heads, head), dim);
  for (std::size_t i = 0; i < dim; ++i) {
    const auto value = static_cast<double>(static_cast<float>(found[i]));
    const double bound =
        right.bound[i] + unit_of<Value> * (std::abs(right.out[i]) + right.bound[i]) + 0x1p-25;
    if (!(std::abs(value - right.out[i]) <= bound))
      return fmt::format("out[{}, {}, {}, {}] = {}, expected {} within {:.2g}", sequence, row, head, i, value,
                         right.out[i], bound);
  }
  return {};
}

template <class Value>
std::string attention_session<Value>::first_wrong(const attention_work<Value>& run) {
  constexpr unsigned char poison = 0xff;  // NaN
  out_.fill_async(poison);
  enqueue(run, {});
  for (int i = 0; i <= checked_rows; ++i) {
    const auto at = static_cast<std::int64_t>(size_.length - 1) * i / checked_rows;
    if (const std::string wrong = wrong_value(i % size_.batch, static_cast<int>(at), i % size_.of.heads);
        !wrong.empty())
      return wrong;
  }
  return {};
}

template varlen_attention_problem<bfloat16> problem_of(const attention_size&);
template varlen_attention_problem<float16> problem_of(const attention_size&);
template class attention_session<bfloat16>;
template class attention_session<float16>;

}  // namespace baton::cli
