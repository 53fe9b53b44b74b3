// protocol/lost_rank.hpp: ranks that gave up, each waiting for another one, tell so and say who was lost. Every wait for what
// others tell may end early, so that what a rank has not heard it does not know; the last rank has heard all there is.
#include "protocol/lost_rank.hpp"

#include <algorithm>

#include "base/math.hpp"
#include "checks/all.hpp"
#include "checks/far_network.hpp"
#include "checks/planted_context.hpp"

namespace baton::checks {
namespace {

using check::verdict;

struct loss_setting {
  std::vector<int> waits_for;         // of each rank; -1: it tells nothing; itself: for nobody else
  std::vector<int> told_before = {};  // who had told all others, and ended, before these gave up
  int p2p_group_size = 1;
  int last = 0;      // tells when it has heard of all others that tell
  int lost = -1;     // whom the last one has to name
  int cut_off = -1;  // whose network alone is gone
  hearing hears{.slices = 2, .for_silent = 1};
  planted_bug bug = {};

  int ranks() const { return static_cast<int>(waits_for.size()); }
  int of(int rank) const { return waits_for[static_cast<std::size_t>(rank)]; }
  bool is_explored(int rank) const {
    return of(rank) >= 0 && std::find(told_before.begin(), told_before.end(), rank) == told_before.end();
  }
  /// Whether a rank that waits for `from` may name `rank`: whoever knows less than all stops on the way, and whoever knows of a
  /// circle alone takes one that has not told yet.
  bool leads_to(int from, int rank) const {
    int at = from;
    for (int links = 0; at >= 0 && links <= ranks(); ++links) {
      if (at == rank || at == of(at)) return at == rank;
      at = of(at);
    }
    return at >= 0;
  }
};

struct loss_world {
  std::vector<std::uint64_t*> words;  // [ranks], of each rank
  std::unique_ptr<far_network> network;
};

constexpr site test_site = "test";

class loss_context : public planted<far_context> {
 public:
  loss_context(const far_context& x, const loss_setting& s, cell_names names)
      : planted{x, s.bug, std::move(names)}, cut_off_{s.cut_off} {}
  void signal(int to, std::uint64_t* word, std::uint64_t value) {
    if (rank() != cut_off_ && to != cut_off_) planted::signal(to, word, value);
  }

 private:
  int cut_off_;
};

template <class X>
void give_up(X& x, check::program& p, const loss_world& w, const loss_setting& s) {
  const int rank = x.rank();
  loss_words words{{{}, p2p_group::of(rank, s.p2p_group_size, s.ranks())}, rank, s.ranks()};
  for (int r = 0; r < s.ranks(); ++r) words.of_ranks.of_rank[r] = w.words[static_cast<std::size_t>(r)];
  if (rank == s.last) {
    typename X::template lanes<std::uint64_t*> others{};
    typename X::template lanes<std::uint64_t> seen{};
    for (int r = 0; r < s.ranks(); ++r)
      if (r != rank && s.of(r) >= 0) others[r] = words.of_ranks.of_rank[rank] + r;
    x.template wait<order::acquire, scope::system>(
        others, [](int, std::uint64_t word) { return word != 0; }, {.where = test_site}, seen);
  }
  const int named = find_lost(x, words, s.of(rank), s.hears);
  p.require(s.leads_to(s.of(rank), named), "who is named was waited for, or is lost");
  p.require(rank != s.last || named == s.lost, "who has heard all names who was lost");
}

check::result check_loss(const loss_setting& s, check::bounds limits) {
  limits.looks = 1;
  limits.may_time_out = [](const wait_site& at) { return at.where == lost_sites::told(); };
  return check::explore(limits, [&](check::program& p) {
    auto w = std::make_shared<loss_world>();
    for (int r = 0; r < s.ranks(); ++r)
      w->words.push_back(p.allocate<std::uint64_t>(static_cast<std::size_t>(s.ranks()),
                                                   "words of rank " + std::to_string(r)));
    for (int to = 0; to < s.ranks(); ++to)
      for (const int r : s.told_before)
        if (to != s.cut_off || p2p_group::of(r, s.p2p_group_size, s.ranks()).has(to))
          w->words[static_cast<std::size_t>(to)][r] =
              epoch_arrival::word(1, static_cast<std::uint32_t>(s.of(r)));
    const int carriers = s.ranks() - s.p2p_group_size;
    w->network = std::make_unique<far_network>(p, s.ranks(), larger(1, carriers));
    for (int r = 0; r < s.ranks(); ++r) {
      if (!s.is_explored(r)) continue;
      far_network* const network = w->network.get();
      network->senders[static_cast<std::size_t>(r)].warps = 1;
      p.spawn(r, 0, 0, [w, network, &p, &s](check::context& x) {
        loss_context mine{far_context{x, network}, s, p.names()};
        give_up(mine, p, *w, s);
        network->end(x);
      });
      for (int c = 0; c < network->carriers; ++c)
        p.spawn(s.ranks() + r * network->carriers + c, 0, 0,
                [w, network, r, c](const check::context& x) { network->carry(x, r, c); });
    }
  });
}

exploration loss_holds(const char* name, const loss_setting& s) {
  return {name, [s](const check::bounds& limits) { return check_loss(s, limits); }};
}

std::vector<exploration> explorations_of_losses() {
  return {
      loss_holds("2 ranks apart, one is lost", {.waits_for = {1, -1}, .lost = 1}),
      loss_holds("3 ranks apart, both wait for the lost one", {.waits_for = {2, 2, -1}, .lost = 2}),
      loss_holds("3 ranks apart, one waits for who waits", {.waits_for = {1, 2, -1}, .lost = 2}),
      loss_holds("3 ranks apart, one waits for who waits, and a silent one is heard twice as long",
                 {.waits_for = {1, 2, -1}, .lost = 2, .hears = {.slices = 3, .for_silent = 2}}),
      loss_holds("3 ranks apart, one waits for who waits, and tells first",
                 {.waits_for = {1, 2, -1}, .last = 1, .lost = 2}),
      loss_holds("3 ranks in groups of 2, one waits for who waits",
                 {.waits_for = {1, 2, -1}, .p2p_group_size = 2, .lost = 2}),
      loss_holds("3 ranks in groups of 2, the lost one is of a group of two",
                 {.waits_for = {-1, 0, 1}, .p2p_group_size = 2, .last = 2, .lost = 0}),
      loss_holds("3 ranks apart, two wait for each other, and one is lost",
                 {.waits_for = {1, 0, -1}, .lost = 2}),
      loss_holds("3 ranks apart, two wait for each other, and one for them",
                 {.waits_for = {1, 0, 1}, .last = 2, .lost = 1}),
      loss_holds("5 ranks apart, one waits for a circle of two, of whom most wait for the other",
                 {.waits_for = {1, 0, 1, 1, 0}, .told_before = {0, 1, 2}, .last = 4, .lost = 1}),
      loss_holds("5 ranks apart, one waits for a circle of three, of whom as many wait for two",
                 {.waits_for = {1, 2, 0, 2, 1}, .told_before = {0, 1, 4}, .last = 3, .lost = 1}),
      loss_holds("4 ranks in groups of 2, the network of the last is gone, its neighbour waits for who waits",
                 {.waits_for = {3, 3, 0, 0},
                  .told_before = {0, 1},
                  .p2p_group_size = 2,
                  .last = 2,
                  .lost = 3,
                  .cut_off = 3}),
      loss_holds("4 ranks in groups of 2, the network of the last is gone, its neighbour is in the circle",
                 {.waits_for = {2, 3, 1, 0},
                  .told_before = {0, 1},
                  .p2p_group_size = 2,
                  .last = 2,
                  .lost = 3,
                  .cut_off = 3}),
      loss_holds("3 ranks apart, one refused what it found", {.waits_for = {1, 2, 2}, .lost = 2}),
      loss_holds("4 ranks in groups of 2, one waits for who waits for who waits",
                 {.waits_for = {1, 2, 3, -1}, .p2p_group_size = 2, .lost = 3}),
      loss_holds("6 ranks in groups of 2, three wait through all groups, two have all they wait for",
                 {.waits_for = {2, -1, 4, -1, 5, -1}, .p2p_group_size = 2, .lost = 5}),
      loss_holds("6 ranks in groups of 2, three wait for the lost one, two have told before",
                 {.waits_for = {4, 4, 4, 4, -1, 4}, .told_before = {1, 2}, .p2p_group_size = 2, .lost = 4}),
      loss_holds("6 ranks in groups of 2, five in a chain, of which two have told before",
                 {.waits_for = {2, 4, 1, 5, 3, -1}, .told_before = {1, 4}, .p2p_group_size = 2, .lost = 5}),
  };
}

std::vector<mutant> mutants_of_losses() {
  using enum change;
  const std::vector<verdict> promise{verdict::broken_promise};
  const auto wrong = [](const char* name, const char* breaks, std::vector<verdict> as, int group,
                        const planted_bug& bug) {
    loss_setting s{.waits_for = {1, 2, -1}, .p2p_group_size = group, .lost = 2, .bug = bug};
    return mutant{name, breaks, std::move(as),
                  [s](const check::bounds& limits) { return check_loss(s, limits); }};
  };
  return {
      wrong("a rank beyond the group is not told", "Progress", {verdict::deadlock}, 1,
            {.what = verbs::signal, .how = lost, .cell = "words of rank 0", .rank = 1}),
      wrong("a rank of the group is not told", "Progress", {verdict::deadlock}, 2,
            {.what = verbs::release_store, .how = lost, .cell = "words of rank 0", .rank = 1}),
      wrong("a rank of the group is told at device scope", "Progress", {verdict::scope_race}, 2,
            {.what = verbs::release_store, .how = narrow, .cell = "words of rank 0", .rank = 1}),
      wrong("a rank is told in another one's place", "Progress", {verdict::deadlock}, 2,
            {.what = verbs::release_store, .how = moved, .cell = "words of rank 0", .rank = 1, .by = 8}),
      wrong("a word says what is no rank", "named", promise, 2,
            {.what = verbs::release_store, .how = shifted, .cell = "words of rank 0", .rank = 1, .by = 1}),
  };
}

}  // namespace

protocol_check lost_rank_check() {
  return {.name = "lost_rank",
          .title = "Ranks that give up tell each other for whom they waited, and name the same one as lost",
          .headers = {"src/protocol/lost_rank.hpp"},
          .explorations = explorations_of_losses(),
          .mutants = mutants_of_losses()};
}

}  // namespace baton::checks
