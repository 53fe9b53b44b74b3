#include "cli/bench/attention_row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace baton::cli {
namespace {

/// Half a unit in the last place of what is stored, relative.
template <class Value>
constexpr double unit_of = std::is_same_v<Value, float16> ? 0x1p-11 : 0x1p-8;

/// A key that a row sees: its weight, and how far off fp32 may bring that, relative to it.
struct seen_key {
  double weight, error;
};

/// A logit is off by head_dim roundings of 2^-23 of the sum of its terms' magnitudes; its weight by that, by two roundings of its
/// distance from the largest, an exp, and an exp each time that a larger logit is met, at most every 16 keys.
std::vector<seen_key> weights_of(std::span<const double> q, int first, int end, const key_reader& read_k) {
  const std::size_t dim = q.size();
  const double scale = 1 / std::sqrt(static_cast<double>(dim));
  std::vector<double> k(dim);
  std::vector<seen_key> keys;
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int j = first; j < end; ++j) {
    read_k(j, k);
    double product = 0, magnitude = 0;
    for (std::size_t i = 0; i < dim; ++i) {
      product += q[i] * k[i];
      magnitude += std::abs(q[i] * k[i]);
    }
    keys.push_back({scale * product, scale * magnitude * static_cast<double>(dim) * 0x1p-23});
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

}  // namespace

/// Beside the weights' errors there are those of two sums of as many values, of 2^-23 each. On CUDA weights are rounded to Value
/// before they multiply v; fp16's smallest are 2^-24 apart, beside a largest weight of 1. Products of errors are within a tenth.
template <class Value>
right_row expected_row(std::span<const double> q, int first, int end, const key_reader& read_k,
                       const key_reader& read_v, bool on_gpu) {
  const std::size_t dim = q.size();
  const std::vector<seen_key> keys = weights_of(q, first, end, read_k);
  const double sums = static_cast<double>(keys.size()) * 0x1p-23, rounded = on_gpu ? unit_of<Value> : 0,
               least = on_gpu && std::is_same_v<Value, float16> ? 0x1p-25 : 0;
  double error = sums;
  std::vector<double> v(dim);
  right_row right{std::vector<double>(dim), std::vector<double>(dim)};
  for (int j = first; j < end; ++j) {
    const seen_key& key = keys[static_cast<std::size_t>(j - first)];
    read_v(j, v);
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
std::string first_wrong_in_row(const right_row& right, std::span<const Value> found) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto value = static_cast<double>(static_cast<float>(found[i]));
    const double bound =
        right.bound[i] + unit_of<Value> * (std::abs(right.out[i]) + right.bound[i]) + 0x1p-25;
    if (!(std::abs(value - right.out[i]) <= bound))
      return fmt::format("{}] = {}, expected {} within {:.2g}", i, value, right.out[i], bound);
  }
  return {};
}

template right_row expected_row<bfloat16>(std::span<const double>, int, int, const key_reader&,
                                          const key_reader&, bool);
template right_row expected_row<float16>(std::span<const double>, int, int, const key_reader&,
                                         const key_reader&, bool);
template std::string first_wrong_in_row(const right_row&, std::span<const bfloat16>);
template std::string first_wrong_in_row(const right_row&, std::span<const float16>);

}  // namespace baton::cli
