// What kernels take beside their messages, from rounds of 2 and of 4 GPUs of one host.
#include "forecast/forecast.hpp"

namespace baton::forecast {
namespace {

/// Of own memory, as within the group: rounds of chunks in graphs of 2 GPUs (2026-11-22-by-token, 2026-11-23-teams).
constexpr double chunks_out_gb_per_s = 1700, chunks_back_gb_per_s = 2800;

/// Beyond the group, on 4 GPUs of one host (2026-11-27-two-levels, levels-256.jsonl). What one token takes there is nearly all
/// latency, one step behind the other: kernels that begin, ids that are put, a token that is cast, copied, put, fenced,
/// signalled, and copied to its rows. A round takes 39.6 us (groups of 2) and 41.1 (of 1), and 57.0 with two levels, whose
/// forwarders await, load, store and tell. Messages are 2.2 and 3.6 us of it as this model has them. Halves of a round were not
/// timed apart: each has half.
constexpr double of_one_token_us = 38.2 / 2, of_forwarder_us = 15.2 / 2;

/// A put there is stores of a warp's lanes, 16 bytes each, and not as fast as copies by the engine: NVSHMEM's all-to-all, which
/// does likewise, sends the bytes of a round of 1,024 tokens at 253 GB/s, 4 H100, in the same run (levels-64.jsonl; on 4 H200
/// 256: 2026-11-27-beyond).
constexpr double stores_gb_per_s = 255;

/// Rates of layout per_expert: what its phases take with 4,096 tokens; the rest: rounds in graphs of 2 GPUs
/// (docs/results/2026-11-21-layout-per-rank). Puts: what a round of one token takes more through NVSHMEM than by stores, on 2
/// GPUs of one host (2026-11-25-beyond); that they are slower than links does not show there.
/// No kernels of this layout have two levels; forwarders are taken to be as fast as those of per_rank.
kernel_facts of_per_expert(bool beyond, double link_gb_per_s) {
  const double put_us = beyond ? 23.6 : 0;
  return {{18.6 + put_us, 2700, of_forwarder_us}, {15.7 + put_us, 4800, of_forwarder_us}, link_gb_per_s};
}

}  // namespace

kernel_facts measured_kernels(const question& q) {
  const bool beyond = q.groups() > 1;
  if (q.per_expert()) return of_per_expert(beyond, q.links.near_gb_per_s);
  if (beyond)
    return {{of_one_token_us, chunks_out_gb_per_s, of_forwarder_us},
            {of_one_token_us, chunks_back_gb_per_s, of_forwarder_us},
            stores_gb_per_s};
  if (transfer_in_group(q) == ep_transfer::chunks)
    return {{18.6, chunks_out_gb_per_s}, {13.5, chunks_back_gb_per_s}, stores_gb_per_s};
  return {{2.9, 2190}, {2.5, 2060}, stores_gb_per_s};  // as chunks, few tokens in lines
}

}  // namespace baton::forecast
