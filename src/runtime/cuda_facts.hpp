#pragma once
#include "baton/device_facts.hpp"

namespace baton {

/// Fills in what CUDA knows: the versions, the GPUs and which reaches which. Never throws for a lack of GPUs;
/// `cuda_problem` says why there are none.
void read_cuda_facts(device_facts& facts);

}  // namespace baton
