// The one wait of the GPU context: what it sees, what it orders, and how it gives up.
#include <array>

#include "tests/gpu/start.cuh"
#include "tests/gpu/waiting_case.hpp"

namespace baton {
namespace {

using test::both_sides;

struct wait_params {
  std::uint64_t* words = nullptr;
  std::uint64_t* out = nullptr;
  int n = 0;
};

class gpu_wait : public test::waiting_case {
 protected:
  gpu_wait() : waiting_case{5'000'000} {}

  template <class Kernel>
  static void run(const wait_params& p, const wait_limits& limits, int blocks, int warps) {
    test::start<Kernel>({blocks, warps * warp_lanes}, p, {3, limits});
    test::finish();
  }
};

constexpr std::uint64_t wanted = 77;

/// Waits until the first n words are 77; out: per lane what it saw, then whether the wait ended well.
struct wait_for_words {
  template <exec_context X>
  static BATON_FN void run(X& x, const wait_params& p) {
    typename X::template lanes<std::uint64_t*> words{};
    typename X::template lanes<std::uint64_t> seen{};
    x.each_lane([&](int lane) {
      words[lane] = lane < p.n ? p.words + lane : nullptr;
      seen[lane] = 5;
    });
    const bool ended = x.template wait<order::acquire, scope::system>(
        words, [](int, std::uint64_t value) { return value == wanted; },
        wait_site{.where = "test", .peer = 2, .epoch = 9, .expected = wanted}, seen);
    std::uint64_t* out = p.out + 64 * (x.block() * x.num_warps() + x.warp());
    x.each_lane([&](int lane) {
      x.write(out + lane, seen[lane]);
      x.write(out + 32 + lane, ended ? 1 : 0);
    });
  }
};

TEST_F(gpu_wait, words_that_are_there_end_it_and_are_reported) {
  both_sides<std::uint64_t> words{std::vector<std::uint64_t>(32, wanted)}, out{64};
  run<wait_for_words>({.words = words.data(), .out = out.data(), .n = 20}, limits_, 1, 1);
  for (std::size_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(out[lane], lane < 20 ? wanted : 5) << lane;
    EXPECT_EQ(out[32 + lane], 1u) << lane;
  }
  EXPECT_EQ(record_->claimed, 0u);
  EXPECT_EQ(abort_word(), 0u);
}

TEST_F(gpu_wait, no_words_end_it_at_once) {
  both_sides<std::uint64_t> words{32}, out{64};
  run<wait_for_words>({.words = words.data(), .out = out.data(), .n = 0}, limits_, 1, 1);
  EXPECT_EQ(out[32], 1u);
}

TEST_F(gpu_wait, past_the_deadline_the_first_missing_lane_is_on_record_and_all_lanes_return_false) {
  both_sides<std::uint64_t> words{std::vector<std::uint64_t>(32, wanted)}, out{64};
  words[3] = 40;
  words[9] = 41;
  run<wait_for_words>({.words = words.data(), .out = out.data(), .n = 32}, limits_, 1, 1);
  for (std::size_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(out[32 + lane], 0u) << lane;
    EXPECT_EQ(out[lane], words[lane]) << lane;
  }
  EXPECT_EQ(record_->claimed, 1u);
  EXPECT_EQ(record_->complete, 1u);
  EXPECT_EQ(record_->rank, 3);
  EXPECT_EQ(record_->block, 0u);
  EXPECT_EQ(record_->warp, 0u);
  EXPECT_EQ(record_->where, site{"test"});
  EXPECT_EQ(record_->peer, 2);
  EXPECT_EQ(record_->epoch, 9u);
  EXPECT_EQ(record_->expected, wanted);
  EXPECT_EQ(record_->seen, 40u);
  EXPECT_EQ(record_->lane, 3u);
  EXPECT_GE(record_->waited_ns, limits_.deadline_ns);
  EXPECT_LT(record_->waited_ns, limits_.deadline_ns + 1'000'000'000);
  EXPECT_EQ(abort_word(), 1u);
}

TEST_F(gpu_wait, many_stuck_warps_leave_one_whole_record) {
  constexpr int blocks = 8, warps = 8;
  both_sides<std::uint64_t> words{32}, out{64 * blocks * warps};
  run<wait_for_words>({.words = words.data(), .out = out.data(), .n = 1}, limits_, blocks, warps);
  for (std::size_t i = 0; i < blocks * warps; ++i) EXPECT_EQ(out[64 * i + 32], 0u) << i;
  EXPECT_EQ(record_->claimed, 1u);
  EXPECT_EQ(record_->complete, 1u);
  EXPECT_LT(record_->block, static_cast<std::uint32_t>(blocks));
  EXPECT_LT(record_->warp, static_cast<std::uint32_t>(warps));
  EXPECT_EQ(record_->expected, wanted);
}

TEST_F(gpu_wait, a_set_abort_word_ends_a_wait_without_a_deadline) {
  set_abort(1);
  limits_.deadline_ns = 0;
  both_sides<std::uint64_t> words{32}, out{64};
  run<wait_for_words>({.words = words.data(), .out = out.data(), .n = 1}, limits_, 1, 1);
  EXPECT_EQ(out[32], 0u);
  EXPECT_EQ(record_->claimed, 0u) << "an aborted wait is a consequence, not a cause";
}

TEST_F(gpu_wait, without_a_record_the_wait_still_gives_up) {
  both_sides<std::uint64_t> words{32}, out{64};
  wait_limits bare{.deadline_ns = 1'000'000, .abort = nullptr, .record = nullptr};
  run<wait_for_words>({.words = words.data(), .out = out.data(), .n = 1}, bare, 1, 1);
  EXPECT_EQ(out[32], 0u);
}

/// Block 0 waits for a word of rank 2 that block 1 stores after some thousand loads, a millisecond or so.
struct wait_for_late_word {
  template <exec_context X>
  static BATON_FN void run(X& x, const wait_params& p) {
    if (x.block() == 0) return wait_for_words::run(x, p);
    x.elect([&] {
      std::uint64_t other = 0;
      for (int i = 0; i < p.n * 4000; ++i)
        other += x.template load<order::acquire, scope::system>(p.words + 1);
      x.template store<order::release, scope::system>(p.words, wanted + other);
    });
  }
};

TEST_F(gpu_wait, a_wait_that_is_over_at_once_is_not_counted) {
  both_sides<wait_log> log{1};
  limits_.log = log.data();
  both_sides<std::uint64_t> words{std::vector<std::uint64_t>(32, wanted)}, out{64};
  run<wait_for_words>({.words = words.data(), .out = out.data(), .n = 20}, limits_, 1, 1);
  EXPECT_EQ(log[0].of_block(0).of_peer(2).waits, 0u);
  EXPECT_EQ(log[0].of_block(0).of_peer(2).ns, 0u);
}

TEST_F(gpu_wait, a_wait_that_is_over_late_is_counted_for_its_peer_and_leaves_no_record) {
  both_sides<wait_log> log{1};
  limits_.log = log.data();
  limits_.deadline_ns = 5'000'000'000;
  both_sides<std::uint64_t> words{32}, out{64};
  run<wait_for_late_word>({.words = words.data(), .out = out.data(), .n = 1}, limits_, 2, 1);
  EXPECT_EQ(out[32], 1u);
  EXPECT_EQ(log[0].of_block(0).of_peer(2).waits, 1u);
  EXPECT_GT(log[0].of_block(0).of_peer(2).ns, 100'000u);
  EXPECT_LT(log[0].of_block(0).of_peer(2).ns, 1'000'000'000u);
  EXPECT_EQ(log[0].of_block(0).of_warp(0).complete, 0u);
  EXPECT_EQ(log[0].of_block(0).of_warp(0).peer, 2) << "it said so while it lasted";
}

TEST_F(gpu_wait, a_wait_that_gives_up_leaves_what_it_waited_for) {
  both_sides<wait_log> log{1};
  limits_.log = log.data();
  both_sides<std::uint64_t> words{32}, out{64};
  run<wait_for_words>({.words = words.data(), .out = out.data(), .n = 1}, limits_, 1, 1);
  const stuck_record& left = log[0].of_block(0).of_warp(0);
  EXPECT_EQ(left.complete, 1u);
  EXPECT_EQ(left.where, site{"test"});
  EXPECT_EQ(left.peer, 2);
  EXPECT_EQ(left.epoch, 9u);
  EXPECT_EQ(left.expected, wanted);
  EXPECT_LT(left.waited_ns, limits_.deadline_ns);
  EXPECT_EQ(log[0].of_block(0).of_peer(2).waits, 0u);
  EXPECT_EQ(record_->complete, 1u);
}

/// Block 1 writes a payload with all its lanes and publishes the epoch; block 0 waits on one lane and reads
/// the payload on all. Back in the same way, so that rounds do not overlap. out[0]: stale values block 0 saw.
struct pass_payloads {
  template <exec_context X>
  static BATON_FN void run(X& x, const wait_params& p) {
    std::uint64_t* const there = p.words;
    std::uint64_t* const back = p.words + 1;
    std::uint64_t* const payload = p.words + 32;
    std::uint64_t stale = 0;
    for (std::uint64_t epoch = 1; epoch <= static_cast<std::uint64_t>(p.n); ++epoch) {
      if (x.block() == 1) {
        x.each(256, [&](int i) { x.write(payload + i, epoch * 1000 + static_cast<std::uint64_t>(i)); });
        x.sync_warp();
        x.elect([&] { x.template store<order::release, scope::system>(there, epoch); });
        if (!reaches(x, back, epoch)) return;
      } else {
        if (!reaches(x, there, epoch)) return;
        x.each(256, [&](int i) {
          if (x.read(payload + i) != epoch * 1000 + static_cast<std::uint64_t>(i)) ++stale;
        });
        x.sync_warp();
        x.elect([&] { x.template store<order::release, scope::system>(back, epoch); });
      }
    }
    if (x.block() == 0)
      x.each_lane([&](int) { x.template fetch_add<order::relaxed, scope::device>(p.out, stale); });
    x.elect([&] { x.template fetch_add<order::relaxed, scope::device>(p.out + 1, std::uint64_t{1}); });
  }

 private:
  template <class X>
  static BATON_FN bool reaches(X& x, std::uint64_t* word, std::uint64_t epoch) {
    typename X::template lanes<std::uint64_t*> words{};
    typename X::template lanes<std::uint64_t> seen{};
    x.each_lane([&](int lane) { words[lane] = lane == 17 ? word : nullptr; });
    return x.template wait<order::acquire, scope::system>(
        words, [&](int, std::uint64_t value) { return value >= epoch; },
        wait_site{.where = "test", .expected = epoch}, seen);
  }
};

TEST_F(gpu_wait, what_one_lane_awaited_all_lanes_may_read) {
  limits_.deadline_ns = 5'000'000'000;
  both_sides<std::uint64_t> words{32 + 256}, out{2};
  run<pass_payloads>({.words = words.data(), .out = out.data(), .n = 2000}, limits_, 2, 1);
  EXPECT_EQ(out[1], 2u) << "both sides finished all rounds";
  EXPECT_EQ(out[0], 0u) << "stale payload values";
  EXPECT_EQ(record_->claimed, 0u);
}

}  // namespace
}  // namespace baton
