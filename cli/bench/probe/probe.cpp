#include "cli/bench/probe/probe.hpp"

#include <algorithm>

#include "baton/error.hpp"
#include "cli/bench/probe/measure.hpp"

namespace baton::probe {

spread spread_of(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const std::size_t n = samples.size();
  const double median = n % 2 == 1 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
  return {median, samples.front(), samples.back()};
}

link_report measure_links(std::span<const world> worlds, links_of what) {
  if (worlds.empty()) throw invalid_argument{"worlds: none, expected all ranks of one world::local"};
  if (worlds.front().device() == device_kind::cpu)
    return measure_threads(static_cast<int>(worlds.size()), what);
  return measure_gpus(worlds, what);
}

}  // namespace baton::probe
