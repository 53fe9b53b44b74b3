#pragma once
// Which kernels there are where some ranks are beyond the p2p group: f.operator()<Kernel>() of the one that parameters are for.
// Sums are by warps, which put what they have written, not by teams.
#include "kernels/ep/outputs.hpp"
#include "kernels/ep/per_rank_chunks/combine.hpp"
#include "kernels/ep/per_rank_chunks/dispatch.hpp"
#include "kernels/ep/with_tokens.hpp"

namespace baton::ep::per_rank_chunks {

using far_dispatch_params = far_params<dispatch_params>;
template <class Output>
using far_combine_params = far_params<combine_params<Output>>;

template <class F>
void with_far_dispatch(const far_dispatch_params& p, bool tokens_are_given, F f) {
  with_tokens(p.s.format, tokens_are_given,
              [&]<class Format>() { f.template operator()<dispatch_kernel<Format>>(); });
}

template <class Output, class F>
void with_far_combine(const far_combine_params<Output>& p, F f) {
  using params = far_combine_params<Output>;
  if (p.s.fp8_sums)
    f.template operator()<combine_body<Output, token_format::blockwise_fp8, params>>();
  else
    f.template operator()<combine_body<Output, token_format::bf16, params>>();
}

}  // namespace baton::ep::per_rank_chunks
