#pragma once
// One warp copies its steps of a row: several 16-byte loads of each lane are in flight before the first store.
#include "exec/exec.hpp"
#include "kernels/ep/token_format.hpp"

namespace baton::ep {

/// Steps [begin, end) of a row of `bytes` bytes, a multiple of 16; both ends 16-byte aligned.
template <exec_context X>
BATON_FN void copy_steps(X& x, std::byte* to, const std::byte* from, int bytes, int begin, int end) {
  constexpr int batch = 4;
  const int limit = smaller(bytes, end * step_bytes);
  for (int first = begin * step_bytes; first < limit; first += batch * step_bytes) {
    x.each_lane([&](int lane) {
      vec16 values[batch];
      const int offset = first + lane * static_cast<int>(sizeof(vec16));
      for (int i = 0; i < batch; ++i) {
        const int at = offset + i * step_bytes;
        if (at < limit) values[i] = x.read(reinterpret_cast<const vec16*>(from + at));
      }
      for (int i = 0; i < batch; ++i) {
        const int at = offset + i * step_bytes;
        if (at < limit) x.write(reinterpret_cast<vec16*>(to + at), values[i]);
      }
    });
  }
}

}  // namespace baton::ep
