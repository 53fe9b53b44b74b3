#pragma once
// What the tensor cores of a GPU do at most: products of operands that lie in shared memory, on every SM.
#include "baton/device_buffer.hpp"
#include "baton/numeric.hpp"

namespace baton::tensor_rate {

class session {
 public:
  /// Normally distributed operands. @throws unsupported  the world is not of GPUs
  explicit session(const world& w);
  void enqueue(stream_ref stream) const;
  double flops() const;

 private:
  world world_;
  int blocks_;
  device_buffer<bfloat16> values_;
  mutable device_buffer<float> found_;  // nobody reads it
};

}  // namespace baton::tensor_rate
