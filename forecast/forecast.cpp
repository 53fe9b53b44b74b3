#include "forecast/forecast.hpp"

#include <algorithm>
#include <utility>

#include "baton/error.hpp"
#include "forecast/kernel_time.hpp"

namespace baton::forecast {
namespace {

/// What has been put was through the links that take what goes to the group, too: there is no card, but for each GPU a queue of
/// its own in which its puts have waited for each other.
void puts_pass_links(phase& p) {
  const auto move = [](crossing& from, crossing& to) {
    for (std::size_t i = 0; i < to.busy_us.size(); ++i) to.busy_us[i] += std::exchange(from.busy_us[i], 0.0);
  };
  move(p.through.nic_out, p.through.near_out);
  move(p.through.nic_in, p.through.near_in);
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
phase_forecast summed_up(const question& q, const phase& p, const kernel_time& kernels, Bytes bytes_of) {
  phase_forecast f;
  std::vector<double> ends;
  double memory_us = 0;
  for (int rank = 0; rank < q.ranks; ++rank) {
    const double bytes = bytes_of(rank);
    ends.push_back(kernels.end_us(rank, bytes));
    memory_us = std::max(memory_us, kernels.memory_us(bytes));
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

round_forecast forecast_round(const question& asked, const choices_of_ranks& route) {
  if (const std::string reason = why_not(asked); !reason.empty()) throw invalid_argument{reason};
  const kernel_facts kernels = measured_kernels(asked);
  question q = asked;
  if (q.links.one_host) q.links = q.links.as_one_host(kernels.put_gb_per_s);
  round_forecast f;
  f.sizes = sizes_of(q);
  const routed routing{q, route};
  f.tokens_of_train = routing.tokens_of_block();
  phase out = dispatch_phase(q, f.sizes, routing), back = combine_phase(q, f.sizes, routing);
  if (q.links.one_host) puts_pass_links(out), puts_pass_links(back);
  const kernel_time of_tokens{q, f.sizes, out, kernels.dispatch, 1.0 * f.sizes.row_payload},
      of_sums{q, f.sizes, back, kernels.combine, 2.0 * q.config.hidden};
  f.dispatch =
      summed_up(q, out, of_tokens, [&](int rank) { return dispatch_bytes(q, f.sizes, routing, out, rank); });
  f.combine = summed_up(q, back, of_sums, [&](int rank) { return combine_bytes(q, routing, back, rank); });
  return f;
}

}  // namespace baton::forecast
