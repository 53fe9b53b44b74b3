#include "baton/expert_placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "baton/error.hpp"
#include "baton/expert_parallel.hpp"
#include "kernels/ep/shape.hpp"

namespace baton {
namespace {

using loads_view = std::span<const std::int64_t>;

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
}

void require_sizes(loads_view loads, int num_ranks, int num_physical) {
  if (num_ranks < 1 || num_ranks > ep::max_ranks)
    throw invalid_argument{fmt::format("num_ranks: {} is outside [1, {}]", num_ranks, ep::max_ranks)};
  const auto logical = static_cast<std::int64_t>(loads.size());
  if (logical < 1) throw invalid_argument{"loads: empty, expected one for each logical expert"};
  if (num_physical < logical || num_physical < num_ranks || num_physical > ep::max_experts ||
      num_physical > logical * num_ranks)
    throw invalid_argument{
        fmt::format("num_physical: {} for {} logical experts on {} ranks; expected at least {}, and at most "
                    "{}: a replica for each rank, {} in all",
                    num_physical, logical, num_ranks, std::max<std::int64_t>(logical, num_ranks),
                    std::min<std::int64_t>(logical * num_ranks, ep::max_experts), ep::max_experts)};
  for (std::size_t e = 0; e < loads.size(); ++e)
    if (loads[e] < 0) throw invalid_argument{fmt::format("loads[{}]: {} is negative", e, loads[e])};
}

/// One replica each, the others one after the other to whose replicas have the most to do: no other counts make the largest
/// load of a replica smaller.
std::vector<std::int32_t> count_replicas(loads_view loads, int num_ranks, int num_physical) {
  std::vector<std::int32_t> counts(loads.size(), 1);
  for (int left = num_physical - static_cast<int>(loads.size()); left > 0; --left) {
    std::size_t best = loads.size();
    const auto load_of = [&](std::size_t e) { return static_cast<double>(loads[e]) / counts[e]; };
    for (std::size_t e = 0; e < loads.size(); ++e) {
      if (counts[e] == num_ranks) continue;
      if (best == loads.size() || load_of(e) > load_of(best) ||
          (load_of(e) == load_of(best) && counts[e] < counts[best]))
        best = e;
    }
    ++counts[best];
  }
  return counts;
}

struct replica {
  std::int32_t expert;
  double load;
};

/// What a rank is given.
struct bin {
  std::vector<replica> replicas;
  double load = 0;

  bool has(std::int32_t expert) const { return count(expert) > 0; }
  std::ptrdiff_t count(std::int32_t expert) const {
    return std::count_if(replicas.begin(), replicas.end(),
                         [expert](const replica& r) { return r.expert == expert; });
  }
  void add(const replica& r) {
    replicas.push_back(r);
    load += r.load;
  }
};

/// In rounds: of replicas that are left, the largest go one to each bin, the largest of these to the bin that has least. Bins
/// then never differ by more than the largest replica: of two bins in a round the fuller one is given less.
std::vector<bin> deal(loads_view loads, const std::vector<std::int32_t>& counts, int num_ranks) {
  std::vector<bin> bins(index(num_ranks));
  std::vector<replica> others;
  for (std::size_t e = 0; e < loads.size(); ++e) {
    const replica one{static_cast<std::int32_t>(e), static_cast<double>(loads[e]) / counts[e]};
    if (counts[e] == num_ranks)
      for (bin& b : bins) b.add(one);
    else
      others.insert(others.end(), index(counts[e]), one);
  }
  std::stable_sort(others.begin(), others.end(),
                   [](const replica& a, const replica& b) { return a.load > b.load; });
  std::vector<std::size_t> order(bins.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t first = 0; first < others.size(); first += bins.size()) {
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return bins[a].load < bins[b].load; });
    for (std::size_t i = 0; i < bins.size() && first + i < others.size(); ++i)
      bins[order[i]].add(others[first + i]);
  }
  return bins;
}

/// Replicas of two bins that could change places, and the larger load that then remains.
struct exchange {
  std::size_t bin, mine, theirs;
  double larger;
};

/// The best exchange of `from`'s replicas for which `may(replica)` that leaves neither bin with `limit`, nor an expert twice.
template <class May>
std::optional<exchange> best_exchange(const std::vector<bin>& bins, std::size_t from, double limit, May may) {
  std::optional<exchange> best;
  const bin& a = bins[from];
  for (std::size_t to = 0; to < bins.size(); ++to) {
    const bin& b = bins[to];
    if (to == from) continue;
    for (std::size_t i = 0; i < a.replicas.size(); ++i) {
      if (!may(a.replicas[i]) || b.has(a.replicas[i].expert)) continue;
      for (std::size_t j = 0; j < b.replicas.size(); ++j) {
        const double moved = a.replicas[i].load - b.replicas[j].load,
                     larger = std::max(a.load - moved, b.load + moved);
        if (larger < (best ? best->larger : limit) && !a.has(b.replicas[j].expert))
          best = exchange{to, i, j, larger};
      }
    }
  }
  return best;
}

void apply(std::vector<bin>& bins, std::size_t from, const exchange& e) {
  bin &a = bins[from], &b = bins[e.bin];
  const double moved = a.replicas[e.mine].load - b.replicas[e.theirs].load;
  std::swap(a.replicas[e.mine], b.replicas[e.theirs]);
  a.load -= moved;
  b.load += moved;
}

/// What no bin has more than: the mean, and all but an equal share of the largest replica.
double guarantee_of(const std::vector<bin>& bins) {
  double sum = 0, largest = 0;
  for (const bin& b : bins) {
    sum += b.load;
    for (const replica& r : b.replicas) largest = std::max(largest, r.load);
  }
  const auto ranks = static_cast<double>(bins.size());
  return sum / ranks + (1 - 1 / ranks) * largest;
}

std::size_t fullest(const std::vector<bin>& bins) {
  const auto by_load = [](const bin& a, const bin& b) { return a.load < b.load; };
  return static_cast<std::size_t>(std::max_element(bins.begin(), bins.end(), by_load) - bins.begin());
}

/// A bin that was dealt an expert twice gives one away, if no bin gets more than place_experts guarantees.
void part_twins(std::vector<bin>& bins, double guaranteed) {
  for (std::size_t b = 0; b < bins.size(); ++b) {
    const auto is_twin = [&](const replica& r) { return bins[b].count(r.expert) > 1; };
    for (std::size_t left = bins[b].replicas.size(); left > 0; --left) {
      const auto found = best_exchange(bins, b, guaranteed, is_twin);
      if (!found) break;
      apply(bins, b, *found);
    }
  }
}

/// The fullest bin changes replicas with others as long as that helps.
void even_out(std::vector<bin>& bins, int num_physical) {
  for (int left = num_physical; left > 0; --left) {
    const std::size_t from = fullest(bins);
    const double enough = bins[from].load * (1 - 1e-9);  // not for what rounding makes of equal loads
    const auto found = best_exchange(bins, from, enough, [](const replica&) { return true; });
    if (!found) return;
    apply(bins, from, *found);
  }
}

expert_placement tables_of(std::vector<bin> bins, std::vector<std::int32_t> counts, int num_physical) {
  // Ranks with one physical expert more come first.
  std::stable_sort(bins.begin(), bins.end(),
                   [](const bin& a, const bin& b) { return a.replicas.size() > b.replicas.size(); });
  expert_placement p;
  p.num_ranks = static_cast<int>(bins.size());
  p.max_replicas = std::min(p.num_ranks, num_physical - static_cast<int>(counts.size()) + 1);
  p.logical_to_physical.assign(counts.size() * index(p.max_replicas), -1);
  std::vector<std::int32_t> placed(counts.size(), 0);
  for (const bin& b : bins) {
    std::vector<std::int32_t> own;
    for (const replica& r : b.replicas) own.push_back(r.expert);
    std::sort(own.begin(), own.end());
    for (const std::int32_t expert : own) {
      const std::size_t nth = index(placed[index(expert)]++);
      p.logical_to_physical[index(expert) * index(p.max_replicas) + nth] = p.num_physical();
      p.physical_to_logical.push_back(expert);
    }
  }
  p.replica_counts = std::move(counts);
  return p;
}

}  // namespace

expert_placement place_experts(loads_view loads, int num_ranks, int num_physical) {
  require_sizes(loads, num_ranks, num_physical);
  std::vector<std::int32_t> counts = count_replicas(loads, num_ranks, num_physical);
  std::vector<bin> bins = deal(loads, counts, num_ranks);
  part_twins(bins, guarantee_of(bins));
  even_out(bins, num_physical);
  return tables_of(std::move(bins), std::move(counts), num_physical);
}

namespace {

/// Placements are kept, and made elsewhere: what tables say is looked at before it is followed.
void require_sound(const expert_placement& p) {
  if (p.num_ranks < 1 || p.num_ranks > ep::max_ranks)
    throw invalid_argument{
        fmt::format("placement.num_ranks: {} is outside [1, {}]", p.num_ranks, ep::max_ranks)};
  if (p.max_replicas < 1 || p.max_replicas > p.num_ranks)
    throw invalid_argument{
        fmt::format("placement.max_replicas: {} is outside [1, {}]", p.max_replicas, p.num_ranks)};
  if (const std::size_t room = p.replica_counts.size() * index(p.max_replicas);
      p.logical_to_physical.size() != room)
    throw invalid_argument{
        fmt::format("placement.logical_to_physical: {} entries, expected max_replicas for each of {} "
                    "replica_counts, {}",
                    p.logical_to_physical.size(), p.num_logical(), room)};
  for (std::size_t e = 0; e < p.replica_counts.size(); ++e)
    if (p.replica_counts[e] < 1 || p.replica_counts[e] > p.max_replicas)
      throw invalid_argument{fmt::format("placement.replica_counts[{}]: {} is outside [1, {}]", e,
                                         p.replica_counts[e], p.max_replicas)};
  for (std::size_t e = 0; e < p.physical_to_logical.size(); ++e)
    if (p.physical_to_logical[e] < 0 || p.physical_to_logical[e] >= p.num_logical())
      throw invalid_argument{fmt::format("placement.physical_to_logical[{}]: {} is outside [0, {})", e,
                                         p.physical_to_logical[e], p.num_logical())};
}

}  // namespace

std::vector<double> loads_of_ranks(const expert_placement& p, loads_view loads) {
  require_sound(p);
  if (loads.size() != p.replica_counts.size())
    throw invalid_argument{fmt::format("loads: {} of them, expected {}, one for each logical expert",
                                       loads.size(), p.num_logical())};
  std::vector<double> of_rank(index(p.num_ranks), 0.0);
  for (int r = 0; r < p.num_ranks; ++r) {
    const expert_range own = experts_of_rank(p.num_physical(), p.num_ranks, r);
    for (int e = own.first; e < own.first + own.count; ++e) {
      const std::size_t logical = index(p.physical_to_logical[index(e)]);
      of_rank[index(r)] += static_cast<double>(loads[logical]) / p.replica_counts[logical];
    }
  }
  return of_rank;
}

std::vector<std::int64_t> logical_loads(const expert_placement& p, loads_view physical_loads) {
  require_sound(p);
  if (physical_loads.size() != p.physical_to_logical.size())
    throw invalid_argument{
        fmt::format("physical_loads: {} of them, expected {}, one for each physical expert",
                    physical_loads.size(), p.num_physical())};
  std::vector<std::int64_t> loads(p.replica_counts.size(), 0);
  for (std::size_t e = 0; e < physical_loads.size(); ++e)
    loads[index(p.physical_to_logical[e])] += physical_loads[e];
  return loads;
}

namespace {

/// The placement's tables, of each expert the replicas that are wanted; of one without such all, or none.
template <class IsWanted>
replica_tables replicas_that(const expert_placement& p, bool all_otherwise, IsWanted is_wanted) {
  replica_tables t{p.logical_to_physical, p.replica_counts};
  for (std::size_t e = 0; e < t.replica_counts.size(); ++e) {
    const auto first = t.logical_to_physical.begin() + static_cast<std::ptrdiff_t>(e * index(p.max_replicas));
    const auto end = first + t.replica_counts[e];
    if (all_otherwise && std::none_of(first, end, is_wanted)) continue;
    const auto behind = std::remove_if(first, end, [&](std::int32_t at) { return !is_wanted(at); });
    std::fill(behind, end, -1);
    t.replica_counts[e] = static_cast<std::int32_t>(behind - first);
  }
  return t;
}

}  // namespace

replica_tables nearest_replicas(const expert_placement& p, int rank) {
  require_sound(p);
  const expert_range own = experts_of_rank(p.num_physical(), p.num_ranks, rank);
  return replicas_that(p, true,
                       [own](std::int32_t at) { return at >= own.first && at < own.first + own.count; });
}

replica_tables active_replicas(const expert_placement& p, std::uint32_t active_ranks) {
  require_sound(p);
  if (std::uint64_t{active_ranks} >> p.num_ranks != 0)
    throw invalid_argument{
        fmt::format("active_ranks: {:#x} has bits of more than {} ranks", active_ranks, p.num_ranks)};
  return replicas_that(p, false, [&](std::int32_t at) {
    for (int r = 0; r < p.num_ranks; ++r) {
      const expert_range own = experts_of_rank(p.num_physical(), p.num_ranks, r);
      if (at >= own.first && at < own.first + own.count) return (active_ranks >> r & 1) != 0;
    }
    return false;
  });
}

replica_tables own_experts(int num_experts, int num_ranks, int rank) {
  if (num_ranks < 1) throw invalid_argument{fmt::format("num_ranks: {} is not positive", num_ranks)};
  if (num_experts < num_ranks || num_experts > ep::max_experts)
    throw invalid_argument{fmt::format("num_experts: {} is outside [{}, {}]: one for each rank at least",
                                       num_experts, num_ranks, ep::max_experts)};
  if (rank < 0 || rank >= num_ranks)
    throw invalid_argument{fmt::format("rank: {} is outside [0, {})", rank, num_ranks)};
  const expert_range own = experts_of_rank(num_experts, num_ranks, rank);
  replica_tables t{std::vector<std::int32_t>(index(num_experts), -1),
                   std::vector<std::int32_t>(index(num_experts), 0)};
  for (int i = 0; i < own.count; ++i) {
    t.logical_to_physical[index(own.first + i)] = i;
    t.replica_counts[index(own.first + i)] = 1;
  }
  return t;
}

}  // namespace baton
