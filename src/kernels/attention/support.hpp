#pragma once
// What the GPU's kernels do of all that can be asked.
#include <string>

#include "kernels/attention/operands.hpp"

namespace baton::attention_kernels {

/// Empty: there is a kernel. Else which argument stands against it, what was found and what to do. Of pointers only whether they
/// are null is looked at.
template <class Value>
std::string why_not_on_cuda(const operands<Value>& asked);

extern template std::string why_not_on_cuda(const operands<bfloat16>&);
extern template std::string why_not_on_cuda(const operands<float16>&);

}  // namespace baton::attention_kernels
