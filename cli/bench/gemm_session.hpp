#pragma once
// One product on one device, ready to run, checked and timed.
#include <functional>
#include <string>

#include "baton/device_buffer.hpp"
#include "baton/gemm.hpp"
#include "cli/bench/gemm_operands.hpp"

namespace baton::cli {

struct gemm_shape {
  int m = 0, n = 0, k = 0;

  double flops() const { return 2.0 * m * n * k; }
  /// Every operand read and every result written once.
  double bytes(std::size_t out_bytes) const {
    return 2.0 * k * (static_cast<double>(m) + n) + static_cast<double>(out_bytes) * m * n;
  }
};

/// Puts one product on a stream.
template <class Out>
using product = std::function<void(const gemm_problem<Out>&, stream_ref)>;

/// Operands of small integers, so that every result is exact, until random_values().
template <class Out>
class gemm_session {
 public:
  gemm_session(const world& world, const gemm_shape& shape);

  /// Poisons the result, runs once, and compares spread-out elements with sums in double precision. Empty: all right.
  std::string first_wrong(const product<Out>& run);
  void random_values();
  void enqueue(const product<Out>& run, stream_ref stream);

 private:
  double expected(std::size_t row, std::size_t column) const;

  world world_;
  gemm_shape shape_;
  gemm_operand<bfloat16> a_, b_;
  device_buffer<Out> c_;
};

extern template class gemm_session<bfloat16>;
extern template class gemm_session<float>;

}  // namespace baton::cli
