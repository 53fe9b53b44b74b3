// What kernels take beside their messages, from rounds of 2 GPUs.
#include "forecast/forecast.hpp"

namespace baton::forecast {

/// Of dispatch and of combine: {us, GB/s}, us more with puts.
///
/// per_rank: fitted to rounds in graphs (docs/results/2026-11-22-by-token, 2026-11-23-teams). per_expert: rates to what its
/// phases take with 4,096 tokens, the rest to rounds in graphs (2026-11-21-layout-per-rank). Puts: what a round of one token
/// takes more through NVSHMEM than by stores, on one host (2026-11-25-beyond).
kernel_facts measured_kernels(ep_layout layout, ep_transfer transfer) {
  constexpr double put_us = 23.6;
  if (layout == ep_layout::per_expert) return {{18.6, 2700, put_us}, {15.7, 4800, put_us}};
  if (transfer == ep_transfer::chunks) return {{18.6, 1700, put_us}, {13.5, 2800, put_us}};
  return {{2.9, 2190, put_us}, {2.5, 2060, put_us}};
}

}  // namespace baton::forecast
