// protocol/completion.hpp in every schedule: blocks of one rank finish their parts, the last one publishes to
// another rank, which reads all parts; kernel after kernel on the same counter. And mutants, each of which must
// be found.
#include <gtest/gtest.h>

#include <iostream>

#include "protocol/arrival.hpp"
#include "protocol/completion.hpp"
#include "sim/check.hpp"
#include "tests/check/weakened_context.hpp"

namespace baton {
namespace {

using check::verdict;

enum class completion_fault { none, target_low, target_high, finishes_first, no_sync };

struct completion_setting {
  int blocks = 2;
  int warps = 1;
  int kernels = 3;
  int units = 1;  // of each block; block 0 has one more
  completion_fault fault = completion_fault::none;
};

struct completion_world {
  std::int32_t* counter;
  std::uint32_t* parts;  // [blocks, warps], in the receiver's memory
  std::uint64_t* sent;   // the receiver's arrival word
  std::uint64_t* taken;  // the sender's: the parts may be overwritten
};

template <class X>
bool await_one(X& x, std::uint64_t* word, std::uint32_t epoch) {
  typename X::template lanes<std::uint64_t*> words{};
  typename X::template lanes<std::uint64_t> seen{};
  words[0] = word;
  return await<epoch_arrival>(x, words, 1, wait_site{.where = site::test, .epoch = epoch}, seen);
}

/// A warp of rank 0.
template <class X>
void run_sender(X& x, const completion_world& w, const completion_setting& s) {
  int target = s.blocks * s.units + 1;
  if (s.fault == completion_fault::target_low) target -= s.units;
  if (s.fault == completion_fault::target_high) ++target;
  const int own = s.units + (x.block() == 0 ? 1 : 0);
  const auto finish_part = [&](std::uint32_t kernel) {
    if (x.warp() == 0 && finish(x, w.counter, own, target)) publish<epoch_arrival>(x, w.sent, kernel, 1);
  };
  for (std::uint32_t kernel = 1; kernel <= static_cast<std::uint32_t>(s.kernels); ++kernel) {
    if (s.fault == completion_fault::finishes_first) finish_part(kernel);
    x.write(w.parts + x.block() * s.warps + x.warp(), kernel);
    if (s.fault != completion_fault::no_sync) x.sync_block();
    if (s.fault != completion_fault::finishes_first) finish_part(kernel);
    x.next_kernel();
    if (x.block() == 0 && x.warp() == 0 && !await_one(x, w.taken, kernel)) return;
    x.next_kernel();
  }
}

/// The only warp of rank 1.
template <class X>
void run_receiver(X& x, check::program& p, const completion_world& w, const completion_setting& s) {
  for (std::uint32_t kernel = 1; kernel <= static_cast<std::uint32_t>(s.kernels); ++kernel) {
    if (!await_one(x, w.sent, kernel)) return;
    for (int i = 0; i < s.blocks * s.warps; ++i)
      p.require(x.read(w.parts + i) == kernel, "every part is this kernel's");
    publish<epoch_arrival>(x, w.taken, kernel, 1);
  }
}

template <weakening Weakening = weakening::none>
check::result check_completion(const completion_setting& s) {
  return check::explore({}, [&](check::program& p) {
    const auto parts = static_cast<std::size_t>(s.blocks * s.warps);
    const completion_world w{p.allocate<std::int32_t>(1, "counter"),
                             p.allocate<std::uint32_t>(parts, "parts"), p.allocate<std::uint64_t>(1, "sent"),
                             p.allocate<std::uint64_t>(1, "taken")};
    for (int i = 0; i < s.blocks * s.warps; ++i) {
      p.spawn(0, i / s.warps, i % s.warps, [w, &s](check::context& x) {
        weakened<check::context, Weakening> mine{x};
        run_sender(mine, w, s);
      });
    }
    p.spawn(1, 0, 0, [w, &p, &s](check::context& x) { run_receiver(x, p, w, s); });
    p.at_end([w, &p] { p.require(*w.counter == 0, "the counter ends as it began"); });
  });
}

void expect_holds(const completion_setting& s) {
  const check::result r = check_completion(s);
  EXPECT_TRUE(r.holds()) << r.summary() << "\n" << r.text << "\n" << r.counterexample;
  std::cout << s.blocks << " blocks of " << s.warps << " warps, " << s.kernels << " kernels: " << r.summary()
            << "\n";
}

void expect_killed(const check::result& r, const std::set<verdict>& by) {
  EXPECT_TRUE(by.contains(r.found)) << r.summary() << "\n" << r.text << "\n" << r.counterexample;
}

TEST(completion_check, two_blocks_four_kernels_have_no_race_and_no_deadlock) {
  expect_holds({.blocks = 2, .warps = 1, .kernels = 4});
}

TEST(completion_check, two_blocks_of_two_warps_three_kernels_have_no_race_and_no_deadlock) {
  expect_holds({.blocks = 2, .warps = 2, .kernels = 3, .units = 2});
}

TEST(completion_check, three_blocks_three_kernels_have_no_race_and_no_deadlock) {
  expect_holds({.blocks = 3, .warps = 1, .kernels = 3});
}

TEST(completion_check, five_blocks_two_kernels_have_no_race_and_no_deadlock) {
  expect_holds({.blocks = 5, .warps = 1, .kernels = 2, .units = 2});
}

TEST(completion_check, mutant_relaxed_add_is_killed) {
  expect_killed(check_completion<weakening::add_relaxed>({}), {verdict::data_race});
}

TEST(completion_check, mutant_add_without_release_is_killed) {
  expect_killed(check_completion<weakening::add_without_release>({}), {verdict::data_race});
}

TEST(completion_check, mutant_add_without_acquire_is_killed) {
  expect_killed(check_completion<weakening::add_without_acquire>({}), {verdict::data_race});
}

TEST(completion_check, mutant_add_at_block_scope_is_killed) {
  expect_killed(check_completion<weakening::add_narrow>({}), {verdict::scope_race});
}

TEST(completion_check, mutant_a_counter_that_is_not_reset_is_killed) {
  expect_killed(check_completion<weakening::relaxed_store_lost>({}),
                {verdict::deadlock, verdict::broken_promise});
}

TEST(completion_check, mutant_a_target_one_block_short_is_killed) {
  expect_killed(check_completion({.fault = completion_fault::target_low}), {verdict::data_race});
}

TEST(completion_check, mutant_a_target_nobody_reaches_is_killed) {
  expect_killed(check_completion({.fault = completion_fault::target_high}), {verdict::deadlock});
}

TEST(completion_check, mutant_finishing_before_the_part_is_written_is_killed) {
  expect_killed(check_completion({.fault = completion_fault::finishes_first}), {verdict::data_race});
}

TEST(completion_check, mutant_finishing_without_sync_block_is_killed) {
  expect_killed(check_completion({.warps = 2, .fault = completion_fault::no_sync}), {verdict::data_race});
}

}  // namespace
}  // namespace baton
