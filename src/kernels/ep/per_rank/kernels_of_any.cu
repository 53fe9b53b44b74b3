// The dispatches of layout per_rank that are compiled for any number of ranks and any ids only: known_ranks.hpp says why.
#include "device/entry.cuh"
#include "kernels/ep/per_rank/dispatch.hpp"

namespace baton {
using namespace ep::per_rank;

#define BATON_DISPATCH_OF_ANY(tokens, format)                       \
  BATON_KERNEL(dispatch_kernel<ep::tokens<format>, 0, ep::any_ids>, \
               sized<dispatch_params, 0, format, ep::any_ids>);
#define BATON_DISPATCHES_OF_ANY(format)       \
  BATON_DISPATCH_OF_ANY(block_tokens, format) \
  BATON_DISPATCH_OF_ANY(given_tokens, format)
BATON_DISPATCHES_OF_ANY(token_format::mxfp8)
BATON_DISPATCHES_OF_ANY(token_format::mxfp4)
BATON_DISPATCHES_OF_ANY(token_format::nvfp4)

}  // namespace baton
