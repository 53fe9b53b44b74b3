#include "kernels/attention/support.hpp"

#include <fmt/format.h>

namespace baton::attention_kernels {

template <class Value>
std::string why_not_on_cuda(const operands<Value>& asked) {
  if (asked.paged)
    return "keys are in pages; kernels for GPUs take them in rows: gather them, or use a CPU world";
  if (asked.head_dim != 256 && asked.head_dim != 512)
    return fmt::format("head_dim is {}; kernels for GPUs are of 256 and 512: compute it on a CPU world",
                       asked.head_dim);
  if (!(asked.scale > 0))
    return fmt::format("scale is {}; kernels for GPUs take those above 0: scale q itself", asked.scale);
  if (asked.num_sms != 0)
    return fmt::format("num_sms is {}; kernels for GPUs take every SM that is free: leave it 0",
                       asked.num_sms);
  return {};
}

template std::string why_not_on_cuda(const operands<bfloat16>&);
template std::string why_not_on_cuda(const operands<float16>&);

}  // namespace baton::attention_kernels
