// protocol/arrival.hpp: rounds of dispatch and combine on the same buffers, both policies.
#include "checks/all.hpp"
#include "checks/arrival_rounds.hpp"
#include "checks/planted_context.hpp"

namespace baton::checks {
namespace {

using check::verdict;

/// Epochs are not compared: whatever is not idle has arrived.
struct any_epoch : epoch_arrival {
  static constexpr bool arrived(std::uint64_t word, std::uint32_t, std::uint32_t) { return word != idle; }
};

/// An epoch of the past is good enough.
struct old_epoch : epoch_arrival {
  static constexpr bool arrived(std::uint64_t word, std::uint32_t epoch, std::uint32_t capacity) {
    const auto its = static_cast<std::uint32_t>(word >> 32);
    return word != idle && its + 1 >= epoch && arrival_word::is(word, its, capacity);
  }
};

/// The epoch never advances.
struct same_epoch : epoch_arrival {
  static constexpr std::uint64_t word(std::uint32_t, std::uint32_t count) {
    return arrival_word::of(1, count);
  }
  static constexpr bool arrived(std::uint64_t word, std::uint32_t, std::uint32_t capacity) {
    return arrival_word::is(word, 1, capacity);
  }
};

/// The reader does not put the idle value back.
struct never_restored : sentinel_arrival {
  static constexpr bool restores = false;
};

/// The idle value counts as arrived.
struct idle_arrives : sentinel_arrival {
  static constexpr bool arrived(std::uint64_t word, std::uint32_t epoch, std::uint32_t capacity) {
    return sentinel_arrival::arrived(word, epoch, capacity) || word == idle;
  }
};

struct arrival_setting {
  int ranks = 2;
  int rounds = 3;
  planted_bug bug = {};
  bool combines = true;
};

template <class Policy>
check::result check_arrival(const arrival_setting& s, const check::bounds& limits) {
  return check::explore(limits, [&](check::program& p) {
    const arrival_world w = make_world<Policy>(p, s.ranks);
    for (int rank = 0; rank < s.ranks; ++rank) {
      p.spawn(rank, 0, 0, [w, &p, &s](check::context& x) {
        planted<check::context> mine{x, s.bug, p.names()};
        const auto require = [&p](bool holds, const char* what) { p.require(holds, what); };
        arrival_rank<Policy, planted<check::context>>{mine, w, require, s.combines}.run(s.rounds);
      });
    }
  });
}

/// What both policies have, for one of them.
template <class Policy>
class both_policies {
 public:
  both_policies(protocol_check& to, const char* policy) : to_{to}, policy_{policy} {}

  void explore() {
    holds("2 ranks, 1 round", {.ranks = 2, .rounds = 1});
    holds("2 ranks, 5 rounds", {.ranks = 2, .rounds = 5});
    holds("3 ranks, 3 rounds", {.ranks = 3, .rounds = 3});
    holds("4 ranks, 3 rounds", {.ranks = 4, .rounds = 3});
    explored("2 ranks, 1 round, no reduction", [](check::bounds limits) {
      limits.how = check::reduction::none;
      return check_arrival<Policy>({.ranks = 2, .rounds = 1}, limits);
    });
    explored("2 ranks, 3 rounds, any wait may give up", [](check::bounds limits) {
      limits.may_time_out = [](const wait_site&) { return true; };
      return check_arrival<Policy>({.ranks = 2, .rounds = 3}, limits);
    });
    explored("3 ranks, 2 rounds, any wait may give up", [](check::bounds limits) {
      limits.may_time_out = [](const wait_site&) { return true; };
      return check_arrival<Policy>({.ranks = 3, .rounds = 2}, limits);
    });
  }

  void plant() {
    using enum change;
    const std::vector<verdict> race{verdict::data_race}, narrow_scope{verdict::scope_race};
    wrong("the publishing store is relaxed", "E1", race, {.what = verbs::release_store, .how = relaxed});
    wrong("the publishing store is at device scope", "E1", narrow_scope,
          {.what = verbs::release_store, .how = narrow});
    wrong("the wait is relaxed", "E1", race, {.what = verbs::wait, .how = relaxed});
    wrong("the wait is at device scope", "E1", narrow_scope, {.what = verbs::wait, .how = narrow});
    wrong("published before the payload is written", "E1", race,
          {.what = verbs::write, .how = late, .cell = "dispatch payload, combine payload"});
    wrong("a rank waits for its own word only", "E1", {verdict::data_race, verdict::broken_promise},
          {.what = verbs::wait, .how = own, .where = arrival_sites::dispatch()});
    misused("the next dispatch follows without a combine between", "E2",
            {verdict::data_race, verdict::deadlock, verdict::broken_promise}, {.combines = false});
    wrong("the payload is read after the combine is published", "E2", race,
          {.what = verbs::read, .how = late, .cell = "dispatch payload"});
    // Rank 0 has nothing for rank 1 in round 1.
    wrong("a rank with nothing to send publishes nothing", "Progress", {verdict::deadlock},
          {.what = verbs::release_store, .how = lost, .cell = "dispatch word", .rank = 0, .time = 2});
  }

  void wrong(const char* name, const char* breaks, std::vector<verdict> noticed_as, const planted_bug& b) {
    misused(name, breaks, std::move(noticed_as), {.bug = b});
  }
  template <class Wrong>
  void wrong_policy(const char* name, std::vector<verdict> noticed_as) {
    planted_in<Wrong>(name, "E1", std::move(noticed_as), {});
  }

 private:
  std::string with_policy(const char* name) const { return std::string{name} + ", " + policy_; }
  void explored(const char* name, std::function<check::result(const check::bounds&)> run) {
    to_.explorations.push_back({with_policy(name), std::move(run)});
  }
  void holds(const char* name, arrival_setting s) {
    explored(name, [s](const check::bounds& limits) { return check_arrival<Policy>(s, limits); });
  }
  void misused(const char* name, const char* breaks, std::vector<verdict> noticed_as, arrival_setting s) {
    planted_in<Policy>(name, breaks, std::move(noticed_as), s);
  }
  template <class Used>
  void planted_in(const char* name, const char* breaks, std::vector<verdict> noticed_as, arrival_setting s) {
    to_.mutants.push_back({with_policy(name), breaks, std::move(noticed_as),
                           [s](const check::bounds& limits) { return check_arrival<Used>(s, limits); }});
  }

  protocol_check& to_;
  const char* policy_;
};

}  // namespace

protocol_check arrival_check() {
  protocol_check all{.name = "arrival",
                     .title = "Arrival words: a rank tells another that all its messages are there",
                     .headers = {"src/protocol/arrival.hpp"},
                     .explorations = {},
                     .mutants = {}};
  both_policies<epoch_arrival> epoch{all, "epoch"};
  both_policies<sentinel_arrival> sentinel{all, "sentinel"};
  epoch.explore();
  sentinel.explore();

  const std::vector<verdict> stale{verdict::data_race, verdict::broken_promise};
  epoch.plant();
  epoch.wrong_policy<any_epoch>("epochs are not compared", stale);
  epoch.wrong_policy<old_epoch>("the epoch of the round before is accepted", stale);
  epoch.wrong_policy<same_epoch>("the epoch never advances", stale);
  sentinel.plant();
  sentinel.wrong_policy<never_restored>("the sentinel is never restored", stale);
  sentinel.wrong("the restoring store is lost", "E1", stale,
                 {.what = verbs::relaxed_store, .how = change::lost});
  // The late store can bury the count of the next round: its reader then waits for ever.
  sentinel.wrong("restored after the next phase is signalled", "E2",
                 {verdict::deadlock, verdict::unordered_stores},
                 {.what = verbs::relaxed_store, .how = change::late, .cell = "dispatch word"});
  sentinel.wrong_policy<idle_arrives>("the idle word counts as arrived", stale);
  return all;
}

}  // namespace baton::checks
