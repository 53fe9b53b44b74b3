#pragma once
// Which kernels there are where some ranks are beyond the p2p group: f.operator()<Kernel>() of the one that parameters are for,
// which are far_params or two_level_params. Sums are by warps, which put what they have written, not by teams.
#include "kernels/ep/outputs.hpp"
#include "kernels/ep/per_rank_chunks/combine.hpp"
#include "kernels/ep/per_rank_chunks/dispatch.hpp"
#include "kernels/ep/with_tokens.hpp"

namespace baton::ep::per_rank_chunks {

template <class Params, class F>
void with_far_dispatch(const Params& p, bool tokens_are_given, F f) {
  with_tokens(p.s.format, tokens_are_given,
              [&]<class Format>() { f.template operator()<dispatch_kernel<Format>>(); });
}

template <class Params, class F>
void with_far_combine(const Params& p, F f) {
  using output = decltype(p.output);
  if (p.s.fp8_sums)
    f.template operator()<combine_body<output, token_format::blockwise_fp8, Params>>();
  else
    f.template operator()<combine_body<output, token_format::bf16, Params>>();
}

}  // namespace baton::ep::per_rank_chunks
