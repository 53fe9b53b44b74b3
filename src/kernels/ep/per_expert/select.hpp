#pragma once
// From run-time choices to kernel types: `launch_as` gets the kernel and its shared bytes.
#include "baton/expert_parallel.hpp"
#include "kernels/ep/per_expert/combine_async.hpp"
#include "kernels/ep/per_expert/combine_wait.hpp"
#include "kernels/ep/per_expert/dispatch_async.hpp"
#include "kernels/ep/per_expert/dispatch_wait.hpp"
#include "kernels/ep/per_expert/launch.hpp"
#include "kernels/ep/with_tokens.hpp"

namespace baton::ep {

template <class F>
void with_arrival(arrival_policy policy, F f) {
  if (policy == arrival_policy::epoch) {
    f.template operator()<epoch_arrival>();
  } else {
    f.template operator()<sentinel_arrival>();
  }
}

template <class Window, class F>
void select(const launch_config& c, const dispatch_async_params<tensor_scales, Window>& p, F launch_as) {
  with_arrival(c.arrival, [&]<class Arrival>() {
    const std::size_t shared = dispatch_async_plan{p.s, Window::most_ranks}.bytes;
    with_tokens(c.format, c.tokens_are_given, [&]<class Format>() {
      launch_as.template operator()<dispatch_async_kernel<Format, Arrival>>(shared);
    });
  });
}

template <template <class> class Kernel, class F>
void select_arrival(const launch_config& c, std::size_t shared_bytes, F launch_as) {
  with_arrival(c.arrival,
               [&]<class Arrival>() { launch_as.template operator()<Kernel<Arrival>>(shared_bytes); });
}
template <class F>
void select(const launch_config& c, const dispatch_wait_params& p, F launch_as) {
  select_arrival<dispatch_wait_kernel>(c, dispatch_wait_plan{p.s}.bytes, launch_as);
}
template <class Window, class F>
void select(const launch_config& c, const combine_async_params<Window>& p, F launch_as) {
  select_arrival<combine_async_kernel>(c, combine_async_plan{p.s, Window::most_ranks}.bytes, launch_as);
}
template <class Output, class F>
void select(const launch_config& c, const combine_wait_params<Output>& p, F launch_as) {
  select_arrival<combine_wait_kernel>(c, combine_wait_plan{p.s}.bytes, launch_as);
}

}  // namespace baton::ep
