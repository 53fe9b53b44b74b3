// A protocol of your own under the checker: a ticket lock between blocks, right and with a bug planted into it.
// docs/check_your_own.md goes through it line by line.
#include <cstdint>
#include <cstdio>

#include "sim/check.hpp"

namespace {

using namespace baton;

/// Whoever takes a ticket enters when it is served.
struct ticket_lock {
  std::uint32_t* next;     // the ticket that the next one gets
  std::uint32_t* serving;  // the ticket whose holder may enter
};

/// False: the wait outlived its deadline.
template <exec_context X>
bool enter(X& x, const ticket_lock& lock, std::uint32_t& ticket) {
  ticket = x.template fetch_add<order::relaxed, scope::device>(lock.next, 1u);
  typename X::template lanes<std::uint32_t*> words{};
  typename X::template lanes<std::uint32_t> seen{};
  words[0] = lock.serving;
  const auto is_served = [ticket](int, std::uint32_t serving) { return serving == ticket; };
  return x.template wait<order::acquire, scope::device>(words, is_served, {.where = "ticket.served"}, seen);
}

template <order Leaving, exec_context X>
void leave(X& x, const ticket_lock& lock, std::uint32_t ticket) {
  x.template store<Leaving, scope::device>(lock.serving, ticket + 1);
}

/// Every block enters `rounds` times and counts, without atomics, what only one at a time may touch.
template <order Leaving>
check::result explore(int blocks, int rounds) {
  return check::explore({}, [=](check::program& p) {
    const ticket_lock lock{p.allocate<std::uint32_t>(1, "next"), p.allocate<std::uint32_t>(1, "serving")};
    auto* count = p.allocate<std::uint32_t>(1, "count");
    for (int block = 0; block < blocks; ++block) {
      p.spawn(0, block, 0, [=](check::context& x) {
        for (int round = 0; round < rounds; ++round) {
          std::uint32_t ticket = 0;
          if (!enter(x, lock, ticket)) return;
          x.write(count, x.read(count) + 1);
          leave<Leaving>(x, lock, ticket);
        }
      });
    }
    p.at_end([=, &p] {
      p.require(*count == static_cast<std::uint32_t>(blocks * rounds), "every entry was counted");
    });
  });
}

}  // namespace

int main() {
  const check::result right = explore<order::release>(3, 2);
  std::printf("leaving with release: %s in %d schedules of at most %d steps\n",
              right.holds() ? "holds" : right.text.c_str(), static_cast<int>(right.executions),
              right.longest);

  const check::result wrong = explore<order::relaxed>(2, 1);
  std::printf("leaving relaxed: %s\n%s\n%s", check::name(wrong.found), wrong.text.c_str(),
              wrong.counterexample.c_str());

  const bool as_expected = right.holds() && wrong.found == check::verdict::data_race;
  std::puts(as_expected ? "it worked: the lock holds, and the bug was found"
                        : "this is not what was expected");
  return as_expected ? 0 : 1;
}
