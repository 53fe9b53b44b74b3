#pragma once
// The configurations of attention of few rows that are compiled for GPUs.
#include <type_traits>

#include "base/constant.hpp"
#include "kernels/decode_attention/config.hpp"

namespace baton::decode_attention {

template <class Config>
struct decode_kernel;  // kernel.hpp

/// As many slots as fit beside the rest.
constexpr config make_config(int head_dim, bool fp16, bool softcap) {
  return {.head_dim = head_dim, .slots = head_dim == 256 ? 20 : 8, .fp16 = fp16, .softcap = softcap};
}
template <class Value, int head_dim, bool softcap>
inline constexpr config config_of = make_config(head_dim, std::is_same_v<Value, float16>, softcap);
template <class Value, int head_dim, bool softcap>
using kernel_of = decode_kernel<constant<config_of<Value, head_dim, softcap>>>;

}  // namespace baton::decode_attention
