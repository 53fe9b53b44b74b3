#pragma once
#include <exception>

#include "base/macros.hpp"

namespace baton {

/// Whether a scope ends because of an exception: on the CPU, machines abandon warps by unwinding them, and an abandoned
/// warp signals nothing. Never on a GPU.
BATON_FN bool unwinding() {
#if defined(__CUDA_ARCH__)
  return false;
#else
  return std::uncaught_exceptions() > 0;
#endif
}

}  // namespace baton
