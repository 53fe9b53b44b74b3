#include "cli/bench/gemm_operands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace baton::cli {
namespace {

constexpr std::size_t longest_period = 1'000'003;

}  // namespace

gemm_operand::gemm_operand(const world& world, std::size_t count, std::uint32_t seed, const memory_use& use)
    : world_{world}, seed_{seed}, period_(std::min(count, longest_period)), values_{world, count, use} {
  std::minstd_rand random{seed};
  for (bfloat16& v : period_) v = bfloat16{static_cast<float>(static_cast<int>(random() % 17) - 8)};
  repeat();
}

void gemm_operand::random_values() {
  std::mt19937 random{seed_};
  std::normal_distribution<float> normal;
  for (bfloat16& v : period_) v = bfloat16{normal(random)};
  repeat();
}

void gemm_operand::repeat() {
  values_.copy_from_async(period_);
  for (std::size_t filled = period_.size(); filled < values_.size(); filled *= 2)
    copy_async(world_, values_.data() + filled, values_.data(),
               std::min(filled, values_.size() - filled) * sizeof(bfloat16));
  world_.synchronize();
}

double dot(const gemm_operand& a, std::size_t a_from, const gemm_operand& b, std::size_t b_from,
           std::size_t k) {
  double sum = 0;
  for (std::size_t l = 0; l < k; ++l) sum += a.at(a_from + l) * b.at(b_from + l);
  return sum;
}

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
template std::string first_wrong_value(const world&, const float*, std::size_t,
                                       const std::vector<std::size_t>&,
                                       const std::function<double(std::size_t, std::size_t)>&);

}  // namespace baton::cli
