#include "runtime/cuda_facts.hpp"

namespace baton {

void read_cuda_facts(device_facts& facts) {
  facts.built_with_cuda = false;
}

}  // namespace baton
