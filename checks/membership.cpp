// protocol/membership.hpp: ranks that change who takes part, and clear their cells in between, round after round. Who is left out
// still stores into its cells at the others, which nobody reads, and comes back.
#include "protocol/membership.hpp"

#include "checks/all.hpp"
#include "checks/planted_context.hpp"

namespace baton::checks {
namespace {

using check::verdict;

struct membership_setting {
  int ranks = 2;
  std::vector<std::uint32_t> members = {0b11};  // of each epoch, from 1
  bool drops = false;                           // rounds are dropped before anybody has received
  int never_tells = -1;  // this rank does not come to the last one, and the others give up
  planted_bug bug = {};

  bool has(std::size_t epoch, int rank) const {
    return epoch == 0 ? rank < ranks : (members[epoch - 1] >> rank & 1) != 0;
  }
};

struct membership_world {
  struct memory {
    std::uint64_t* words;     // [meeting_steps, most_members]
    std::uint64_t* data;      // [ranks]: what each rank sends
    std::uint64_t* arrivals;  // [ranks]: of which membership
  };
  std::vector<memory> of;
};

template <class X>
class member {
 public:
  member(X& x, check::program& p, const membership_world& w, const membership_setting& s)
      : x_{x}, program_{p}, world_{w}, setting_{s} {}

  void run() {
    for (std::uint64_t epoch = 1; epoch <= setting_.members.size(); ++epoch) {
      if (!setting_.has(epoch, x_.rank())) {
        send_late(epoch);
        continue;
      }
      if (epoch == setting_.members.size() && x_.rank() == setting_.never_tells) return;
      if (!meets(epoch, 0)) return;
      clear(epoch);
      if (!meets(epoch, 1)) return;
      send(epoch);
      if (!setting_.drops && !receives(epoch)) return;
    }
  }

 private:
  static std::uint64_t value_of(std::uint64_t epoch, int rank) {
    return 100 * epoch + static_cast<std::uint64_t>(rank) + 1;
  }
  const membership_world::memory& memory_of(int rank) const {
    return world_.of[static_cast<std::size_t>(rank)];
  }

  bool meets(std::uint64_t epoch, int step) {
    meeting m{{}, member_word(epoch, setting_.members[epoch - 1]), x_.rank(), step};
    for (int r = 0; r < setting_.ranks; ++r) m.words[r] = memory_of(r).words;
    typename X::template lanes<std::uint64_t> told{};
    if (!meet(x_, m, told)) return false;
    for (int r = 0; r < setting_.ranks; ++r)
      program_.require(!setting_.has(epoch, r) || told[r] == m.told, "members are told the same");
    return true;
  }
  /// The members' cells. What lies in others', and whether they still store there, is nobody's concern until they are back.
  void clear(std::uint64_t epoch) {
    for (int r = 0; r < setting_.ranks; ++r)
      if (setting_.has(epoch, r)) x_.write(memory_of(x_.rank()).data + r, std::uint64_t{0});
  }
  void send(std::uint64_t epoch) {
    for (int r = 0; r < setting_.ranks; ++r)
      if (setting_.has(epoch, r)) x_.write(memory_of(r).data + x_.rank(), value_of(epoch, x_.rank()));
    x_.sync_warp();
    x_.each_lane([&](int r) {
      if (r < setting_.ranks && setting_.has(epoch, r))
        x_.template store<order::release, scope::system>(memory_of(r).arrivals + x_.rank(), epoch);
    });
  }
  /// To those that it took part with before it was left out.
  void send_late(std::uint64_t epoch) {
    for (int r = 0; r < setting_.ranks; ++r)
      if (setting_.has(epoch, r)) x_.write(memory_of(r).data + x_.rank(), value_of(0, x_.rank()));
  }
  bool receives(std::uint64_t epoch) {
    const membership_world::memory& mine = memory_of(x_.rank());
    typename X::template lanes<std::uint64_t*> from{};
    typename X::template lanes<std::uint64_t> seen{};
    for (int r = 0; r < setting_.ranks; ++r)
      if (setting_.has(epoch, r)) from[r] = mine.arrivals + r;
    if (!x_.template wait<order::acquire, scope::system>(
            from, [=](int, std::uint64_t word) { return word == epoch; }, {.where = "test"}, seen))
      return false;
    for (int r = 0; r < setting_.ranks; ++r)
      if (setting_.has(epoch, r))
        program_.require(x_.read(mine.data + r) == value_of(epoch, r), "what a member sent stays");
    return true;
  }

  X& x_;
  check::program& program_;
  const membership_world& world_;
  const membership_setting& setting_;
};

check::result check_membership(const membership_setting& s, check::bounds limits) {
  limits.looks = 1;
  if (s.never_tells >= 0) limits.may_time_out = [](const wait_site&) { return true; };
  return check::explore(limits, [&](check::program& p) {
    auto w = std::make_shared<membership_world>();
    for (int r = 0; r < s.ranks; ++r) {
      const std::string whose = " of rank " + std::to_string(r);
      const auto ranks = static_cast<std::size_t>(s.ranks);
      w->of.push_back({p.allocate<std::uint64_t>(meeting_steps * most_members, "words" + whose),
                       p.allocate<std::uint64_t>(ranks, "data" + whose),
                       p.allocate<std::uint64_t>(ranks, "arrivals" + whose)});
    }
    for (int r = 0; r < s.ranks; ++r)
      p.spawn(r, 0, 0, [w, &p, &s](check::context& x) {
        planted<check::context> mine{x, s.bug, p.names()};
        member<planted<check::context>>{mine, p, *w, s}.run();
      });
  });
}

exploration membership_holds(const char* name, const membership_setting& s) {
  return {name, [s](const check::bounds& limits) { return check_membership(s, limits); }};
}

mutant wrongly_told(const char* name, const char* breaks, std::vector<verdict> noticed_as,
                    const planted_bug& bug) {
  return {name, breaks, std::move(noticed_as), [bug](const check::bounds& limits) {
            return check_membership({.members = {0b11, 0b11}, .drops = true, .bug = bug}, limits);
          }};
}

std::vector<mutant> membership_mutants() {
  using enum change;
  constexpr verbs tells = verbs::release_store, waits = verbs::wait;
  constexpr site left = member_sites::left(), ready = member_sites::ready();
  const std::vector<verdict> race{verdict::data_race, verdict::broken_promise};
  return {
      wrongly_told("members tell with a relaxed store", "E1", race,
                   {.what = tells, .how = relaxed, .cell = "words"}),
      wrongly_told("members tell at device scope", "E1", {verdict::scope_race},
                   {.what = tells, .how = narrow, .cell = "words"}),
      wrongly_told("that all have left is awaited without acquire", "E1", race,
                   {.what = waits, .how = relaxed, .where = left}),
      wrongly_told("that all are ready is awaited without acquire", "E2", race,
                   {.what = waits, .how = relaxed, .where = ready}),
      wrongly_told("words are awaited at device scope", "E1", {verdict::scope_race},
                   {.what = waits, .how = narrow, .where = left}),
      wrongly_told("nobody waits until all have left", "E1", race,
                   {.what = waits, .how = lost, .where = left}),
      wrongly_told("nobody waits until all are ready", "E2", race,
                   {.what = waits, .how = lost, .where = ready}),
      wrongly_told("a word of the epoch before is enough", "E1", race,
                   {.what = waits, .how = shifted, .where = left, .by = 1 << epoch_bits_from}),
      wrongly_told("ready in the epoch before is enough", "E2", race,
                   {.what = waits, .how = shifted, .where = ready, .by = 1 << epoch_bits_from}),
      wrongly_told("cells are cleared after that was told of", "E2", race,
                   {.what = verbs::write, .how = late, .cell = "data"}),
      wrongly_told("a member is not told", "Progress", {verdict::deadlock},
                   {.what = tells, .how = lost, .cell = "words of rank 1", .rank = 0}),
  };
}

}  // namespace

protocol_check membership_check() {
  return {.name = "membership",
          .title = "Ranks that change who takes part meet twice, and put their cells back in between",
          .headers = {"src/protocol/membership.hpp"},
          .explorations = {membership_holds("2 ranks, 1 change", {}),
                           membership_holds("2 ranks, 3 changes", {.members = {0b11, 0b11, 0b11}}),
                           membership_holds("2 ranks, 3 changes, rounds are dropped",
                                            {.members = {0b11, 0b11, 0b11}, .drops = true}),
                           membership_holds("2 ranks, the second is left out, and comes back",
                                            {.members = {0b01, 0b11}}),
                           membership_holds("2 ranks, each left out in turn, and all",
                                            {.members = {0b01, 0b10, 0b11}}),
                           membership_holds("3 ranks, 1 change", {.ranks = 3, .members = {0b111}}),
                           membership_holds("3 ranks, one is left out", {.ranks = 3, .members = {0b011}}),
                           membership_holds("3 ranks, one is left out, and comes back",
                                            {.ranks = 3, .members = {0b011, 0b111}}),
                           membership_holds("2 ranks, 2 changes, the second does not come to the last",
                                            {.members = {0b11, 0b11}, .never_tells = 1})},
          .mutants = membership_mutants()};
}

}  // namespace baton::checks
