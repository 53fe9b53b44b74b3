#include "forecast/forecast.hpp"

#include <algorithm>

#include "baton/error.hpp"
#include "kernels/ep/shape.hpp"

namespace baton::forecast {
namespace {

/// Bytes that a rank reads and writes in its own memory, for what it has received.
struct memory_work {
  double dispatch_bytes, combine_bytes;
};

memory_work work_of(const question& q, const message_sizes& sizes, const routed& routing, int rank) {
  const double rows = static_cast<double>(routing.rows_of(rank)),
               tokens = static_cast<double>(routing.tokens_at(rank)), own = q.tokens(),
               payload = sizes.row_payload, row_back = 2.0 * q.config.hidden, result = 4.0 * q.config.hidden;
  if (q.per_expert()) return {2 * rows * payload, own * (q.config.top_k * row_back + result)};
  const double copies = q.config.rows == ep_rows::by_expert ? rows : sizes.tokens_stay ? -tokens : tokens;
  return {(tokens + copies) * payload, rows * row_back + own * result};
}

/// Layout per_expert copies and adds up what has arrived, in kernels of their own; per_rank meanwhile.
double end_of(const question& q, const phase& p, int rank, const kernel_cost& cost, double bytes) {
  const auto r = static_cast<std::size_t>(rank);
  const double links = std::max(p.sent_us[r], p.arrived_us[r]), memory = bytes / (1e3 * cost.copy_gb_per_s);
  const double fixed = cost.fixed_us + (q.groups() > 1 ? cost.put_us : 0);
  return fixed + (q.per_expert() ? links + memory : std::max(links, memory));
}

double most(const std::vector<double>& all) {
  return all.empty() ? 0 : *std::max_element(all.begin(), all.end());
}

void name_bottleneck(const ways& w, double memory_us, phase_forecast& f) {
  const auto longer = [&f](double us, bottleneck what) {
    if (us <= f.busiest_us) return;
    f.busiest_us = us;
    f.of = what;
  };
  longer(most(w.near_out.busy_us), bottleneck::links_out);
  longer(most(w.near_in.busy_us), bottleneck::links_in);
  longer(most(w.nic_out.busy_us), bottleneck::cards_out);
  longer(most(w.nic_in.busy_us), bottleneck::cards_in);
  longer(memory_us, bottleneck::memory);
}

template <class Bytes>
phase_forecast summed_up(const question& q, const phase& p, const kernel_cost& cost, Bytes bytes_of) {
  phase_forecast f;
  std::vector<double> ends;
  double memory_us = 0;
  for (int rank = 0; rank < q.ranks; ++rank) {
    ends.push_back(end_of(q, p, rank, cost, bytes_of(rank)));
    memory_us = std::max(memory_us, bytes_of(rank) / (1e3 * cost.copy_gb_per_s));
  }
  f.messages_us = most(p.arrived_us);
  f.slowest_us = most(ends);
  std::nth_element(ends.begin(), ends.begin() + q.ranks / 2, ends.end());
  f.median_us = ends[static_cast<std::size_t>(q.ranks / 2)];
  f.near = p.near;
  f.far = p.far;
  name_bottleneck(p.through, memory_us, f);
  return f;
}

}  // namespace

const char* name(bottleneck b) {
  constexpr const char* names[] = {"nothing", "links_out", "links_in", "cards_out", "cards_in", "memory"};
  return names[static_cast<std::size_t>(b)];
}

round_forecast forecast_round(const question& q, const choices_of_ranks& route) {
  if (const std::string reason = why_not(q); !reason.empty()) throw invalid_argument{reason};
  round_forecast f;
  f.sizes = sizes_of(q);
  const routed routing{q, route};
  f.tokens_of_train = routing.tokens_of_block();
  const kernel_facts kernels = measured_kernels(q.config.layout, transfer_in_group(q));
  f.dispatch = summed_up(q, dispatch_phase(q, f.sizes, routing), kernels.dispatch,
                         [&](int rank) { return work_of(q, f.sizes, routing, rank).dispatch_bytes; });
  f.combine = summed_up(q, combine_phase(q, f.sizes, routing), kernels.combine,
                        [&](int rank) { return work_of(q, f.sizes, routing, rank).combine_bytes; });
  return f;
}

}  // namespace baton::forecast
