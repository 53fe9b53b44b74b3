// Blocks of a cluster add up a word for each share, some sums after each other; each warp of a block has a share. Every addend
// tells whose it is, so that one that is missing, counted twice or of another sum is seen.
#include "protocol/split_sum.hpp"

#include "checks/all.hpp"
#include "checks/planted_context.hpp"

namespace baton::checks {
namespace {

using check::verdict;

/// Another one than tells.
constexpr int writing_lane = 1;
constexpr site read_by_owner = "sums.read", there = "sums.there";

struct summing {
  int blocks, shares, sums;
  static constexpr int most_shares = 6, most_places = 4;
  static constexpr std::size_t places_at = most_shares * sizeof(mbarrier);
  static constexpr std::size_t shared_bytes = places_at + most_places * sizeof(std::uint32_t);

  static std::uint32_t addend(int sum, int block) { return 1u << (4 * sum + block); }
  std::uint32_t total(int sum) const { return (addend(sum, blocks) - addend(sum, 0)); }
};

template <class X>
class summing_warp {
 public:
  summing_warp(X& x, check::program& p, const summing& s)
      : x_{x},
        program_{p},
        s_{s},
        barriers_{reinterpret_cast<mbarrier*>(x.shared())},
        places_{reinterpret_cast<std::uint32_t*>(x.shared() + summing::places_at)} {}

  void run() {
    if (x_.warp() == 0) {
      for (int share = 0; share < s_.shares; ++share) split_sum::prepare(x_, barriers_, share, s_.shares);
      x_.fence_mbarrier_init();
    }
    x_.sync_cluster();
    split_sum sum{x_, barriers_, x_.warp(), s_.shares};
    for (int i = 0; i < s_.sums; ++i)
      if (!(sum.owns(x_) ? collect(sum, i) : send(sum, i))) return;
    x_.sync_cluster();
  }

 private:
  static wait_site at(site where, int sum) {
    return {.where = where, .epoch = static_cast<std::uint32_t>(sum)};
  }
  bool send(split_sum& sum, int i) {
    if (!sum.acquire(x_, at(read_by_owner, i))) return false;
    std::uint32_t* const to = x_.in_block(places_ + sum.place_of(x_.cluster_block()), sum.owner());
    x_.each_lane([&](int lane) {
      if (lane == writing_lane) x_.write(to, summing::addend(i, x_.cluster_block()));
    });
    sum.tell(x_);
    return true;
  }
  bool collect(split_sum& sum, int i) {
    if (!sum.await_others(x_, at(there, i))) return false;
    std::uint32_t total = summing::addend(i, x_.cluster_block());
    for (int block = 0; block < s_.blocks; ++block)
      if (block != x_.cluster_block())
        total += x_.from_one([&] { return x_.read(places_ + sum.place_of(block)); });
    program_.require(total == s_.total(i), "the owner adds up each block's addend of this sum, once");
    sum.release(x_);
    return true;
  }

  X& x_;
  check::program& program_;
  const summing& s_;
  mbarrier* barriers_;
  std::uint32_t* places_;
};

check::result explore_summing(const summing& s, const planted_bug& bug, const check::bounds& limits) {
  return check::explore(limits, [&](check::program& p) {
    p.shared_memory(summing::shared_bytes);
    p.name_shared(0, sizeof(mbarrier), s.shares, "sum barrier");
    p.name_shared(summing::places_at, sizeof(std::uint32_t), summing::most_places, "addend");
    p.clusters_of(s.blocks);
    for (int block = 0; block < s.blocks; ++block) {
      for (int warp = 0; warp < s.shares; ++warp) {
        p.spawn(0, block, warp, [=, &p](check::context& base) {
          planted<check::context> x{base, bug, p.names()};
          summing_warp<planted<check::context>>{x, p, s}.run();
        });
      }
    }
  });
}

exploration summing_holds(const summing& s) {
  return {std::to_string(s.blocks) + " blocks, " + std::to_string(s.shares) + " shares, " +
              std::to_string(s.sums) + " sums",
          [s](const check::bounds& limits) { return explore_summing(s, {}, limits); }};
}

std::vector<mutant> summing_mutants(const summing& s) {
  using enum change;
  const auto wrong = [s](const char* name, const char* breaks, const planted_bug& bug) {
    return mutant{name,
                  breaks,
                  {verdict::data_race, verdict::broken_promise, verdict::deadlock, verdict::mbarrier_misuse,
                   verdict::garbage_read, verdict::loose_end},
                  [s, bug](const check::bounds& limits) { return explore_summing(s, bug, limits); }};
  };
  constexpr verbs wait = verbs::mbarrier_wait, arrive = verbs::mbarrier_arrive;
  return {
      wrong("an addend is written over before it was read", "S2",
            {.what = wait, .how = lost, .where = read_by_owner}),
      wrong("addends are read before they are there", "S1", {.what = wait, .how = lost, .where = there}),
      wrong("the first sum's senders wait", "Start",
            {.what = wait, .how = shifted, .where = read_by_owner, .by = 1}),
      wrong("an owner waits for the other parity", "S1",
            {.what = wait, .how = shifted, .where = there, .by = 1}),
      wrong("an addend comes after it was told of", "S1",
            {.what = verbs::write, .how = late, .cell = "addend"}),
      wrong("a place is free before it was read", "S2", {.what = verbs::read, .how = late, .cell = "addend"}),
      wrong("an arrival is lost", "Progress",
            {.what = arrive, .how = lost, .cell = "sum barrier", .time = 1}),
      wrong("arrivals stay in the own block", "Progress", {.what = arrive, .how = own}),
      wrong("a phase takes an arrival more", "Progress",
            {.what = verbs::mbarrier_init, .how = shifted, .cell = "sum barrier", .by = 1})};
}

}  // namespace

protocol_check split_sum_check() {
  return {.name = "split_sum",
          .title = "Sums of which each block of a cluster has an addend",
          .headers = {"src/protocol/split_sum.hpp"},
          .explorations = {summing_holds({2, 2, 1}), summing_holds({2, 2, 3}), summing_holds({2, 4, 2}),
                           summing_holds({3, 3, 3}), summing_holds({3, 6, 2}), summing_holds({4, 4, 2})},
          .mutants = summing_mutants({2, 2, 3})};
}

}  // namespace baton::checks
