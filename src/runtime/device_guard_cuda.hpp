#pragma once
// Makes a device current for a scope; the caller's comes back afterwards.
#include <cuda_runtime_api.h>

#include "runtime/error_cuda.hpp"

namespace baton {

class device_guard {
 public:
  explicit device_guard(int device) {
    check(cudaGetDevice(&before_));
    if (before_ == device) return;
    check(cudaSetDevice(device));
    changed_ = true;
  }
  ~device_guard() {
    if (changed_) cudaSetDevice(before_);
  }
  device_guard(const device_guard&) = delete;
  device_guard& operator=(const device_guard&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace baton
