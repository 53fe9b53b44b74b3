#pragma once
// The configurations of attention that are compiled for GPUs.
#include <type_traits>

#include "base/constant.hpp"
#include "kernels/attention/config.hpp"

namespace baton::attention_kernels {

template <class Config>
struct attention_kernel;  // kernel.hpp

/// As many slots as fit beside the rest. Head dimension 256 reads so little that requests to the cache cost more than they save,
/// and its rings have slots enough without registers for Q.
constexpr config make_config(int head_dim, bool fp16, bool softcap, bool paged = false) {
  config c{.head_dim = head_dim, .fp16 = fp16, .softcap = softcap, .paged = paged};
  if (head_dim == 256) c.slots = 10, c.q_in_registers = 0, c.tiles_ahead = 0;
  if (head_dim == 128) c.slots = 12, c.q_in_registers = 0, c.tiles_ahead = 0, c.loader_registers = 40;
  return c;
}
template <class Value, int head_dim, bool softcap, bool paged = false>
inline constexpr config config_of = make_config(head_dim, std::is_same_v<Value, float16>, softcap, paged);
template <class Value, int head_dim, bool softcap, bool paged = false>
using kernel_of = attention_kernel<constant<config_of<Value, head_dim, softcap, paged>>>;

/// That of the kernel for heads of `head_dim`; 0: there is none.
constexpr int kernel_dim_of(int head_dim) {
  return head_dim == 64 ? 128 : head_dim == 128 || head_dim == 256 || head_dim == 512 ? head_dim : 0;
}

}  // namespace baton::attention_kernels
