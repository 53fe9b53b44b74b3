#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace baton {

/// Which logical expert each physical one is a replica of. A communicator's experts are the physical ones
/// (ep_config::num_experts is their number); the router knows the logical ones.
///
/// The shapes of the tables depend on sizes alone, so that a new placement goes where the old one was, in device memory too.
/// Calls that take one throw invalid_argument where its tables, which may come from a file, contradict each other.
struct expert_placement {
  int num_ranks = 0;
  int max_replicas = 0;  // the smaller of num_ranks and num_physical - num_logical + 1
  std::vector<std::int32_t> physical_to_logical;  // [num_physical]; whose they are: experts_of_rank
  std::vector<std::int32_t> logical_to_physical;  // [num_logical, max_replicas]: ascending, then -1
  std::vector<std::int32_t> replica_counts;       // [num_logical]: 1 to max_replicas

  int num_physical() const { return static_cast<int>(physical_to_logical.size()); }
  int num_logical() const { return static_cast<int>(replica_counts.size()); }
};

/// Replicates the logical experts with the highest loads and spreads all replicas over the ranks, so that the busiest rank has
/// little to do. `loads` [num_logical] are rows of each, of any span of time; num_physical - num_logical are replicas beyond
/// the first. Each rank has as many physical experts as experts_of_rank says.
///
/// Replicas of an expert share its load evenly, and are on ranks of their own wherever exchanging two replicas gets them there
/// without breaking the guarantee.
///
/// Guarantee, for R ranks, L logical and N physical experts, of max, the load of the busiest rank, and mean, that of all:
/// max <= mean + (1 - 1/R) * w, w being the largest load of a replica, which is as small as N allows; hence max is at most
/// 2 - 1/R times the best there is, and, if N > L, max <= mean * (1 + (R - 1) / (N - L)).
///
/// A pure function of its arguments; experts are ordered by number where loads are equal. Cost, on the host: time
/// O(N * L + N * N * N / R), mostly far less (256 experts and 32 replicas on 8 ranks: below 1 ms).
/// @throws invalid_argument  no loads, more than 1024 physical experts, fewer than logical ones or than ranks, more than
///                           num_ranks replicas for each, a negative load
expert_placement place_experts(std::span<const std::int64_t> loads, int num_ranks, int num_physical);

/// What each rank has to do if logical experts have these loads: [num_ranks].
/// @throws invalid_argument  loads are not num_logical
std::vector<double> loads_of_ranks(const expert_placement& placement, std::span<const std::int64_t> loads);

/// Loads of the logical experts, of those of the physical ones, which dispatch_input::expert_load counts: those of a rank at its
/// experts_of_rank. To be done before the placement changes. @throws invalid_argument  loads are not num_physical
std::vector<std::int64_t> logical_loads(const expert_placement& placement,
                                        std::span<const std::int64_t> physical_loads);

/// Tables for one rank's expert_map, of the placement's shapes.
struct replica_tables {
  std::vector<std::int32_t> logical_to_physical;
  std::vector<std::int32_t> replica_counts;
};
/// The tables of the placement, but that of an expert with replicas on `rank` only these are listed: its tokens then cross no
/// link. Loads stay even as long as ranks have about as many tokens each.
/// @throws invalid_argument  rank is not one of num_ranks
replica_tables nearest_replicas(const expert_placement& placement, int rank);

/// The tables of the placement with the replicas on these ranks alone (bit r: rank r), as when others are left out of a
/// communicator (expert_parallel::set_members): tokens then go to replicas that are there. An expert without any counts 0
/// replicas, so that its choices count as -1.
/// @throws invalid_argument  a bit is of no rank
replica_tables active_replicas(const expert_placement& placement, std::uint32_t active_ranks);

/// Tables for a rank by itself, where every rank has all tokens, as behind attention that is split by heads: nothing needs to be
/// sent. Each rank has a communicator of its own, over a world of one rank, with the experts that experts_of_rank gives it,
/// numbered from 0; ids are of all num_experts, and those of other ranks' experts count as -1. What its combine gives is this
/// rank's part of each token's sum; the parts are added up by the all-reduce that such attention ends in anyway. Shared experts'
/// output is given to one rank's combine. Of the tables num_logical is num_experts, and max_replicas 1.
/// @throws invalid_argument  num_experts is not num_ranks to 1024, or rank is not one of num_ranks
replica_tables own_experts(int num_experts, int num_ranks, int rank);

}  // namespace baton
