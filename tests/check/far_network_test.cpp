// The checker's network has all that a network may do: what it held back without a reason, explorations would not find.
#include "checks/far_network.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

namespace baton::checks {
namespace {

using check::context;
using check::verdict;

constexpr site test_site = "test";

/// Three ranks of a warp each: 16 bytes of rank 0's that go to rank 1, and words that tell ranks 1 and 2.
struct far_program {
  vec16 *source, *target;
  std::uint64_t* told;  // [3]
  std::unique_ptr<far_network> network;
};

void await(context& x, std::uint64_t* word) {
  context::lanes<std::uint64_t*> words{};
  context::lanes<std::uint64_t> seen{};
  words[0] = word;
  x.wait<order::acquire, scope::system>(
      words, [](int, std::uint64_t value) { return value != 0; }, {.where = test_site}, seen);
}
void tell(context& x, std::uint64_t* word) {
  x.store<order::release, scope::system>(word, std::uint64_t{1});
}

using sends = std::function<void(far_context&, const far_program&)>;

/// What the checker finds where rank 0 sends by `first`, rank 2 tells rank 1 what it was told, and this one, which awaits `nth`
/// of the words, looks at what was put.
verdict found_of(const sends& first, std::size_t nth) {
  return check::explore({},
                        [&](check::program& p) {
                          auto w = std::make_shared<far_program>(
                              far_program{p.allocate<vec16>(1, "source"), p.allocate<vec16>(1, "target"),
                                          p.allocate<std::uint64_t>(3, "told"), nullptr});
                          w->network = std::make_unique<far_network>(p, 3, 4);
                          w->network->senders[0].warps = 1;
                          p.spawn(0, 0, 0, [w, &first](context& x) {
                            far_context mine{x, w->network.get()};
                            first(mine, *w);
                            w->network->end(x);
                          });
                          p.spawn(1, 0, 0, [w, nth](context& x) {
                            await(x, w->told + nth);
                            x.read(w->target);
                          });
                          if (nth == 1)
                            p.spawn(2, 0, 0, [w](context& x) {
                              await(x, w->told + 2);
                              tell(x, w->told + 1);
                            });
                          for (int c = 0; c < w->network->carriers; ++c)
                            p.spawn(3 + c, 0, 0, [w, c](const context& x) { w->network->carry(x, 0, c); });
                        })
      .found;
}

std::byte* bytes(vec16* at) {
  return reinterpret_cast<std::byte*>(at);
}

/// A put to rank 1, then a word to rank `to`, behind a fence or not.
sends put_then_word(int to, bool fences) {
  return [to, fences](far_context& x, const far_program& w) {
    x.put(1, bytes(w.target), bytes(w.source), 16);
    if (fences) x.fence_puts();
    x.signal(to, w.told + (to == 1 ? 0 : 2), 1);
  };
}

TEST(far_network, a_word_is_behind_a_put_to_its_rank_if_a_fence_is_between) {
  EXPECT_EQ(found_of(put_then_word(1, true), 0), verdict::none);
  EXPECT_EQ(found_of(put_then_word(1, false), 0), verdict::data_race);
}

TEST(far_network, a_word_to_another_rank_is_behind_no_put) {
  EXPECT_EQ(found_of(put_then_word(2, true), 1), verdict::data_race);
}

}  // namespace
}  // namespace baton::checks
