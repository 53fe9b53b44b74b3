// protocol/arrival.hpp: rounds of dispatch and combine on the same buffers, both policies.
#include "checks/all.hpp"
#include "checks/arrival_rounds.hpp"
#include "checks/weakened_context.hpp"

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
  round_fault fault = round_fault::none;
};

template <class Policy, weakening Weakening = weakening::none>
check::result check_arrival(const arrival_setting& s, const check::bounds& limits) {
  using weak = weakened<check::context, Weakening>;
  return check::explore(limits, [&](check::program& p) {
    const arrival_world w = make_world<Policy>(p, s.ranks);
    for (int rank = 0; rank < s.ranks; ++rank) {
      p.spawn(rank, 0, 0, [w, &p, &s](check::context& x) {
        weak mine{x};
        const auto require = [&p](bool holds, const char* what) { p.require(holds, what); };
        arrival_rank<Policy, weak>{mine, w, s.fault, require}.run(s.rounds);
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
    weak<weakening::release_store_relaxed>("the publishing store is relaxed", {verdict::data_race});
    weak<weakening::release_store_narrow>("the publishing store is at device scope", {verdict::scope_race});
    weak<weakening::wait_relaxed>("the wait is relaxed", {verdict::data_race});
    weak<weakening::wait_narrow>("the wait is at device scope", {verdict::scope_race});
    fault("published before the payload is written", "E1", {verdict::data_race}, round_fault::publish_first);
    fault("a rank waits for its own word only", "E1", {verdict::data_race}, round_fault::waits_for_itself);
    fault("the next dispatch follows without a combine between", "E2",
          {verdict::data_race, verdict::deadlock, verdict::broken_promise}, round_fault::no_combine);
    fault("the payload is read after the combine is published", "E2", {verdict::data_race},
          round_fault::reads_late);
    fault("a rank with nothing to send publishes nothing", "Progress", {verdict::deadlock},
          round_fault::skips_empty);
  }

  void fault(const char* name, const char* breaks, std::vector<verdict> noticed_as, round_fault f) {
    planted(name, breaks, std::move(noticed_as),
            [f](const check::bounds& limits) { return check_arrival<Policy>({.fault = f}, limits); });
  }
  template <class Wrong, weakening Weakening = weakening::none>
  void wrong(const char* name, const char* breaks, std::vector<verdict> noticed_as) {
    planted(name, breaks, std::move(noticed_as),
            [](const check::bounds& limits) { return check_arrival<Wrong, Weakening>({}, limits); });
  }

 private:
  std::string with_policy(const char* name) const { return std::string{name} + ", " + policy_; }
  void explored(const char* name, std::function<check::result(const check::bounds&)> run) {
    to_.explorations.push_back({with_policy(name), std::move(run)});
  }
  void holds(const char* name, arrival_setting s) {
    explored(name, [s](const check::bounds& limits) { return check_arrival<Policy>(s, limits); });
  }
  void planted(const char* name, const char* breaks, std::vector<verdict> noticed_as,
               std::function<check::result(const check::bounds&)> run) {
    to_.mutants.push_back({with_policy(name), breaks, std::move(noticed_as), std::move(run)});
  }
  template <weakening Weakening>
  void weak(const char* name, std::vector<verdict> noticed_as) {
    wrong<Policy, Weakening>(name, "E1", std::move(noticed_as));
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
  epoch.wrong<any_epoch>("epochs are not compared", "E1", stale);
  epoch.wrong<old_epoch>("the epoch of the round before is accepted", "E1", stale);
  epoch.fault("the epoch never advances", "E1", stale, round_fault::same_epoch);
  sentinel.plant();
  sentinel.wrong<never_restored>("the sentinel is never restored", "E1", stale);
  sentinel.wrong<sentinel_arrival, weakening::relaxed_store_lost>("the restoring store is lost", "E1", stale);
  // The late store can bury the count of the next round: its reader then waits for ever.
  sentinel.fault("restored after the next phase is signalled", "E2",
                 {verdict::deadlock, verdict::unordered_stores}, round_fault::restores_late);
  sentinel.wrong<idle_arrives>("the idle word counts as arrived", "E1", stale);
  return all;
}

}  // namespace baton::checks
