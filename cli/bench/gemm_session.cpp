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

}  // namespace

gemm_session::gemm_session(const world& world, int size) : world_{world}, size_{size} {
  const auto values = static_cast<std::size_t>(size) * static_cast<std::size_t>(size);
  host_a_ = small_integers(values, 1);
  host_b_ = small_integers(values, 2);
  a_ = {world, host_a_, {"operand a", "lower --sizes"}};
  b_ = {world, host_b_, {"operand b", "lower --sizes"}};
  c_ = {world, values, {"the product", "lower --sizes"}};
}

void gemm_session::enqueue(const product& run, stream_ref stream) {
  run({a_.data(), b_.data(), c_.data(), size_, size_, size_}, stream);
}

product gemm_session::with(const ring_gemm_config& config) const {
  return [this, config](const ring_gemm_problem& problem, stream_ref stream) {
    ring_gemm(world_, problem, config, stream);
  };
}

double gemm_session::expected(std::size_t row, std::size_t column) const {
  const auto k = static_cast<std::size_t>(size_);
  double sum = 0;
  for (std::size_t l = 0; l < k; ++l)
    sum += static_cast<double>(static_cast<float>(host_a_[row * k + l])) *
           static_cast<double>(static_cast<float>(host_b_[column * k + l]));
  return sum;
}

std::string gemm_session::first_wrong(const product& run) {
  constexpr unsigned char poison = 0xff;  // NaN
  c_.fill_async(poison);
  enqueue(run, {});
  const std::vector<float> c = c_.to_host();
  const auto n = static_cast<std::size_t>(size_);
  constexpr std::size_t looked_at = 257;  // prime: rows and columns of all remainders
  for (std::size_t i = 0; i < looked_at; ++i) {
    const std::size_t at = i + 1 == looked_at ? n * n - 1 : i * (n * n / looked_at) % (n * n);
    const double right = expected(at / n, at % n);
    if (static_cast<double>(c[at]) != right)
      return fmt::format("c[{}, {}] = {}, expected {}", at / n, at % n, c[at], right);
  }
  return {};
}

}  // namespace baton::cli
