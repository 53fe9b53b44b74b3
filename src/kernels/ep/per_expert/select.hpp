#pragma once
// From run-time choices to kernel types: `launch_as` gets the kernel and its shared bytes.
#include "kernels/ep/per_expert/combine_async.hpp"
#include "kernels/ep/per_expert/combine_wait.hpp"
#include "kernels/ep/per_expert/dispatch_async.hpp"
#include "kernels/ep/per_expert/dispatch_wait.hpp"
#include "kernels/ep/per_expert/launch.hpp"

namespace baton::ep {

template <class F>
void with_arrival(arrival_policy policy, F f) {
  if (policy == arrival_policy::epoch) {
    f.template operator()<epoch_arrival>();
  } else {
    f.template operator()<sentinel_arrival>();
  }
}

template <class F>
void with_tokens(token_format format, F f) {
  switch (format) {
    case token_format::bf16:
      return f.template operator()<bf16_tokens>();
    case token_format::blockwise_fp8:
      return f.template operator()<fp8_tokens>();
    case token_format::mxfp8:
      return f.template operator()<block_tokens<token_format::mxfp8>>();
    case token_format::mxfp4:
      return f.template operator()<block_tokens<token_format::mxfp4>>();
    case token_format::nvfp4:
      return f.template operator()<block_tokens<token_format::nvfp4>>();
  }
}

/// The same for tokens that are given in the format.
template <class F>
void with_given_tokens(token_format format, F f) {
  switch (format) {
    case token_format::bf16:
      return f.template operator()<bf16_tokens>();
    case token_format::blockwise_fp8:
      return f.template operator()<given_tokens<token_format::blockwise_fp8>>();
    case token_format::mxfp8:
      return f.template operator()<given_tokens<token_format::mxfp8>>();
    case token_format::mxfp4:
      return f.template operator()<given_tokens<token_format::mxfp4>>();
    case token_format::nvfp4:
      return f.template operator()<given_tokens<token_format::nvfp4>>();
  }
}

template <class F>
void select(const launch_config& c, const dispatch_async_params<>& p, F launch_as) {
  with_arrival(c.arrival, [&]<class Arrival>() {
    const std::size_t shared = dispatch_async_plan{p.s}.bytes;
    const auto launch_with = [&]<class Format>() {
      launch_as.template operator()<dispatch_async_kernel<Format, Arrival>>(shared);
    };
    if (c.tokens_are_given)
      with_given_tokens(c.format, launch_with);
    else
      with_tokens(c.format, launch_with);
  });
}

template <template <class> class Kernel, class F>
void select_arrival(const launch_config& c, const shape& s, F launch_as) {
  with_arrival(c.arrival, [&]<class Arrival>() {
    launch_as.template operator()<Kernel<Arrival>>(typename Kernel<Arrival>::plan{s}.bytes);
  });
}
template <class F>
void select(const launch_config& c, const dispatch_wait_params& p, F launch_as) {
  select_arrival<dispatch_wait_kernel>(c, p.s, launch_as);
}
template <class F>
void select(const launch_config& c, const combine_async_params& p, F launch_as) {
  select_arrival<combine_async_kernel>(c, p.s, launch_as);
}
template <class Output, class F>
void select(const launch_config& c, const combine_wait_params<Output>& p, F launch_as) {
  select_arrival<combine_wait_kernel>(c, p.s, launch_as);
}

}  // namespace baton::ep
