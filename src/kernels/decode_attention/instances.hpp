#pragma once
// The configurations of attention of few rows that are compiled for GPUs.
#include <type_traits>

#include "base/constant.hpp"
#include "kernels/decode_attention/config.hpp"

namespace baton::decode_attention {

template <class Config>
struct decode_kernel;  // kernel.hpp

/// As many slots as fit beside the rest; of e4m3 at 256 one less, as six were no quicker.
constexpr config make_config(int head_dim, int rows, bool fp16, bool e4m3 = false) {
  const int slots = e4m3 ? 5 : rows == 16 ? 6 : head_dim == 256 ? 5 : 4;
  return {.head_dim = head_dim,
          .rows = rows,
          .slots = slots,
          .fp16 = fp16,
          .e4m3 = e4m3,
          .loader_registers = rows == 16 ? 56 : 40};
}
template <class Value, int head_dim, int rows, bool e4m3 = false>
inline constexpr config config_of = make_config(head_dim, rows, std::is_same_v<Value, float16>, e4m3);
template <class Value, int head_dim, int rows, bool e4m3 = false>
using kernel_of = decode_kernel<constant<config_of<Value, head_dim, rows, e4m3>>>;

}  // namespace baton::decode_attention
