#include "kernels/attention/support.hpp"

#include <fmt/format.h>

namespace baton::attention_kernels {

template <class Value>
std::string why_not_on_cuda(const operands<Value>& asked) {
  return fmt::format(
      "head_dim is {}; there is no attention kernel of any head_dim for GPUs; compute it on a CPU world",
      asked.head_dim);
}

template std::string why_not_on_cuda(const operands<bfloat16>&);
template std::string why_not_on_cuda(const operands<float16>&);

}  // namespace baton::attention_kernels
