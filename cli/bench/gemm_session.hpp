#pragma once
// One product on one device, ready to run, checked and timed.
#include <functional>
#include <string>
#include <vector>

#include "baton/device_buffer.hpp"
#include "baton/ring_gemm.hpp"

namespace baton::cli {

/// Puts one product on a stream.
using product = std::function<void(const ring_gemm_problem&, stream_ref)>;

/// Square operands of small integers, so that every result is exact.
class gemm_session {
 public:
  gemm_session(const world& world, int size);

  /// Poisons the result, runs once, and compares spread-out elements with sums in double precision. Empty: all right.
  std::string first_wrong(const product& run);
  void enqueue(const product& run, stream_ref stream);
  product with(const ring_gemm_config& config) const;
  const world& where() const { return world_; }

 private:
  double expected(std::size_t row, std::size_t column) const;

  world world_;
  int size_;
  std::vector<bfloat16> host_a_, host_b_;
  device_buffer<bfloat16> a_, b_;
  device_buffer<float> c_;
};

}  // namespace baton::cli
