#include "cli/bench/gemm_session.hpp"

namespace baton::cli {
namespace {

std::size_t area(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

}  // namespace

template <class Out>
gemm_session<Out>::gemm_session(const world& world, const gemm_shape& s)
    : world_{world},
      shape_{s},
      a_{world, area(s.m, s.k), 1, {"operand a", "lower the sizes"}},
      b_{world, area(s.n, s.k), 2, {"operand b", "lower the sizes"}},
      c_{world, area(s.m, s.n), {"the product", "lower the sizes"}} {}

template <class Out>
void gemm_session<Out>::enqueue(const product<Out>& run, stream_ref stream) {
  run({a_.data(), b_.data(), c_.data(), shape_.m, shape_.n, shape_.k}, stream);
}

template <class Out>
void gemm_session<Out>::random_values() {
  a_.random_values();
  b_.random_values();
}

template <class Out>
double gemm_session<Out>::expected(std::size_t row, std::size_t column) const {
  const auto k = static_cast<std::size_t>(shape_.k);
  return dot(a_, row * k, b_, column * k, k);
}

template <class Out>
std::string gemm_session<Out>::first_wrong(const product<Out>& run) {
  constexpr unsigned char poison = 0xff;  // NaN
  c_.fill_async(poison);
  enqueue(run, {});
  return first_wrong_value(world_, c_.data(), static_cast<std::size_t>(shape_.n), spread_out(c_.size()),
                           [this](std::size_t row, std::size_t column) { return expected(row, column); });
}

template class gemm_session<bfloat16>;
template class gemm_session<float>;

}  // namespace baton::cli
