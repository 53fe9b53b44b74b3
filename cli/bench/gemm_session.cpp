#include "cli/bench/gemm_session.hpp"

#include <fmt/format.h>

#include <random>

#include "baton/error.hpp"

namespace baton::cli {
namespace {

std::vector<bfloat16> small_integers(std::size_t count, std::uint32_t seed) {
  std::minstd_rand random{seed};
  std::vector<bfloat16> values(count);
  for (bfloat16& v : values) v = bfloat16{static_cast<float>(static_cast<int>(random() % 17) - 8)};
  return values;
}

/// The same ones again and again, so that large matrices are made quickly; the period is prime.
std::vector<bfloat16> normal_values(std::size_t count, std::uint32_t seed) {
  std::mt19937 random{seed};
  std::normal_distribution<float> normal;
  std::vector<bfloat16> period(1'000'003), values(count);
  for (bfloat16& v : period) v = bfloat16{normal(random)};
  for (std::size_t i = 0; i < count; ++i) values[i] = period[i % period.size()];
  return values;
}

std::size_t area(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

}  // namespace

template <class Out>
gemm_session<Out>::gemm_session(const world& world, const gemm_shape& s)
    : world_{world},
      shape_{s},
      host_a_{small_integers(area(s.m, s.k), 1)},
      host_b_{small_integers(area(s.n, s.k), 2)},
      a_{world, host_a_, {"operand a", "lower the sizes"}},
      b_{world, host_b_, {"operand b", "lower the sizes"}},
      c_{world, area(s.m, s.n), {"the product", "lower the sizes"}} {}

template <class Out>
void gemm_session<Out>::enqueue(const product<Out>& run, stream_ref stream) {
  run({a_.data(), b_.data(), c_.data(), shape_.m, shape_.n, shape_.k}, stream);
}

template <class Out>
void gemm_session<Out>::random_values() {
  host_a_ = normal_values(host_a_.size(), 1);
  host_b_ = normal_values(host_b_.size(), 2);
  a_.copy_from_async(host_a_);
  b_.copy_from_async(host_b_);
  world_.synchronize();
}

template <class Out>
double gemm_session<Out>::expected(std::size_t row, std::size_t column) const {
  const auto k = static_cast<std::size_t>(shape_.k);
  double sum = 0;
  for (std::size_t l = 0; l < k; ++l)
    sum += static_cast<double>(static_cast<float>(host_a_[row * k + l])) *
           static_cast<double>(static_cast<float>(host_b_[column * k + l]));
  return sum;
}

template <class Out>
std::string gemm_session<Out>::first_wrong(const product<Out>& run) {
  constexpr unsigned char poison = 0xff;  // NaN
  c_.fill_async(poison);
  enqueue(run, {});
  const std::vector<Out> c = c_.to_host();
  const auto n = static_cast<std::size_t>(shape_.n);
  constexpr std::size_t looked_at = 257;  // prime: rows and columns of all remainders
  for (std::size_t i = 0; i < looked_at; ++i) {
    const std::size_t at = i + 1 == looked_at ? c.size() - 1 : i * (c.size() / looked_at) % c.size();
    const auto right = static_cast<float>(Out{static_cast<float>(expected(at / n, at % n))});
    if (static_cast<float>(c[at]) != right)
      return fmt::format("c[{}, {}] = {}, expected {}", at / n, at % n, static_cast<float>(c[at]), right);
  }
  return {};
}

template class gemm_session<bfloat16>;
template class gemm_session<float>;

}  // namespace baton::cli
