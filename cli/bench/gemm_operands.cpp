#include "cli/bench/gemm_operands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <type_traits>

namespace baton::cli {
namespace {

constexpr std::size_t longest_period = 1'000'003;

/// Of what is drawn: integers from -most to most, and the standard deviation of random values.
template <class T>
struct drawn;
template <>
struct drawn<bfloat16> {
  static constexpr int most = 8;
  static constexpr float deviation = 1;
};
template <>
struct drawn<float16> : drawn<bfloat16> {};
template <>
struct drawn<
    float8_e4m3> {  // sums of a block stay below 2^13, and values use the format as those that are quantised do
  static constexpr int most = 2;
  static constexpr float deviation = 100;
};

template <class T, class Random>
T small(Random& random) {
  if constexpr (std::is_same_v<T, float>) {
    return std::ldexp(1.0f, static_cast<int>(random() % 3) - 1);
  } else {
    constexpr int most = drawn<T>::most;
    return T{static_cast<float>(static_cast<int>(random() % (2 * most + 1)) - most)};
  }
}

}  // namespace

template <class T>
gemm_operand<T>::gemm_operand(const world& world, std::size_t count, std::uint32_t seed,
                              const memory_use& use)
    : world_{world}, seed_{seed}, period_(std::min(count, longest_period)), values_{world, count, use} {
  std::minstd_rand random{seed};
  for (T& v : period_) v = small<T>(random);
  repeat();
}

template <class T>
void gemm_operand<T>::random_values() {
  std::mt19937 random{seed_};
  if constexpr (std::is_same_v<T, float>) {
    constexpr float least = 0.005f;
    std::uniform_real_distribution<float> scale{least, 2 * least};
    for (T& v : period_) v = scale(random);
  } else {
    std::normal_distribution<float> normal{0, drawn<T>::deviation};
    for (T& v : period_) v = T{normal(random)};
  }
  repeat();
}

template <class T>
void gemm_operand<T>::repeat() {
  values_.copy_from_async(period_);
  for (std::size_t filled = period_.size(); filled < values_.size(); filled *= 2)
    copy_async(world_, values_.data() + filled, values_.data(),
               std::min(filled, values_.size() - filled) * sizeof(T));
  world_.synchronize();
}

template class gemm_operand<bfloat16>;
template class gemm_operand<float16>;
template class gemm_operand<float8_e4m3>;
template class gemm_operand<float>;

std::vector<std::size_t> spread_out(std::size_t count) {
  constexpr std::size_t looked_at = 257;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i + 1 < looked_at; ++i) places.push_back(i * count / looked_at);
  places.push_back(count - 1);
  return places;
}

template <class Out>
std::string first_wrong_value(const world& world, const Out* c, std::size_t n,
                              const std::vector<std::size_t>& places,
                              const std::function<double(std::size_t row, std::size_t column)>& expected) {
  for (const std::size_t at : places) {
    const auto found = static_cast<float>(to_host(world, c + at, 1).front()),
               right = static_cast<float>(Out{static_cast<float>(expected(at / n, at % n))});
    if (found != right) return fmt::format("c[{}, {}] = {}, expected {}", at / n, at % n, found, right);
  }
  return {};
}

template std::string first_wrong_value(const world&, const bfloat16*, std::size_t,
                                       const std::vector<std::size_t>&,
                                       const std::function<double(std::size_t, std::size_t)>&);
template std::string first_wrong_value(const world&, const float16*, std::size_t,
                                       const std::vector<std::size_t>&,
                                       const std::function<double(std::size_t, std::size_t)>&);
template std::string first_wrong_value(const world&, const float*, std::size_t,
                                       const std::vector<std::size_t>&,
                                       const std::function<double(std::size_t, std::size_t)>&);

}  // namespace baton::cli
