// The memory model against programs whose outcomes are known.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "tests/check/litmus_suite.hpp"

namespace baton {
namespace {

std::string joined(const std::set<std::string>& words) {
  std::string text;
  for (const auto& w : words) text += " " + w;
  return text;
}

std::string reduction_name(const testing::TestParamInfo<check::reduction>& info) {
  if (info.param == check::reduction::none) return "none";
  return info.param == check::reduction::sleep ? "sleep" : "dpor";
}

class litmus_programs : public testing::TestWithParam<check::reduction> {};

TEST_P(litmus_programs, show_exactly_what_the_memory_model_allows) {
  for (const auto& t : litmus::all_tests()) {
    check::bounds limits;
    limits.how = GetParam();
    const auto seen = litmus::observe(t, limits);
    EXPECT_TRUE(litmus::as_expected(t, seen))
        << t.name << ": " << seen.result.summary() << "\n"
        << seen.result.text << "\noutcomes:" << joined(seen.outcomes)
        << "\nexpected: " << check::name(t.expected) << ";" << joined(t.outcomes) << "\n"
        << seen.result.counterexample;
  }
}

TEST(litmus_page, says_how_many_programs_there_are) {
  std::ifstream file{std::string{BATON_SOURCE_DIR} + "/docs/checker.md"};
  const std::string page{std::istreambuf_iterator<char>{file}, {}};
  const std::string row = "| `litmus_test` | " + std::to_string(litmus::all_tests().size()) + " programs ";
  EXPECT_NE(page.find(row), std::string::npos) << "docs/checker.md does not say: " << row;
  std::uint64_t most = 0;
  for (const auto& t : litmus::all_tests())
    most = std::max(most, litmus::observe(t, {.how = check::reduction::none}).result.executions);
  const std::string end = "by all three searches | up to " + std::to_string(most) + " each |";
  EXPECT_NE(page.find(end), std::string::npos) << "docs/checker.md does not say: " << end;
}

INSTANTIATE_TEST_SUITE_P(reductions, litmus_programs,
                         testing::Values(check::reduction::none, check::reduction::sleep,
                                         check::reduction::dpor),
                         reduction_name);

TEST(checker, tells_the_schedule_in_words) {
  const auto t = litmus::message_passing<order::relaxed, order::acquire, scope::system, scope::system>(
      "", {1, 0, 0}, check::verdict::data_race);
  const auto seen = litmus::observe(t, {});
  EXPECT_EQ(seen.result.text,
            "rank 1 block 0 warp 0 reads data without order after rank 0 block 0 warp 0 wrote it");
  EXPECT_EQ(seen.result.counterexample,
            "   1  rank 0 block 0 warp 0    write                      data (4 bytes)\n"
            "   2  rank 0 block 0 warp 0    store.relaxed.system       x = 0x1\n"
            "   3  rank 1 block 0 warp 0    wait.acquire.system        x at test: saw 0x1\n"
            "   4  rank 1 block 0 warp 0    read                       data (4 bytes)\n"
            "missing: an edge from rank 0 block 0 warp 0's write to rank 1 block 0 warp 0's read.\n"
            "      rank 0 block 0 warp 0's store.relaxed.system of x and rank 1 block 0 warp 0's "
            "wait.acquire.system of x make "
            "none: the first does not release\n");
}

TEST(checker, a_race_names_the_release_that_came_too_early) {
  const auto r = check::explore({}, [](check::program& p) {
    auto* data = p.allocate<std::uint32_t>(1, "data");
    auto* flag = p.allocate<std::uint32_t>(1, "flag");
    p.spawn(0, 0, 0, [=](check::context& x) {
      x.store<order::release, scope::system>(flag, 1u);
      x.write(data, 1u);
    });
    p.spawn(1, 0, 0, [=](check::context& x) {
      litmus::wait_for<order::acquire, scope::system>(x, flag, 1);
      x.read(data);
    });
  });
  EXPECT_NE(r.counterexample.find("store.release.system of flag came before what it would have to cover"),
            std::string::npos)
      << r.counterexample;
}

TEST(checker, a_deadlock_names_who_waits_where_for_what) {
  const auto seen = litmus::observe(litmus::waiting_tests().front(), {});
  EXPECT_EQ(
      seen.result.text,
      "nobody can go on:\n      rank 0 block 0 warp 0 waits at test for x (holds 0x2; epoch 0, expects 0x1)");
}

TEST(checker, a_program_that_does_not_renew_its_state_is_told_so) {
  std::uint32_t leftover = 0;
  const auto r = check::explore({}, [&](check::program& p) {
    p.name(&leftover, "left over");
    p.spawn(0, 0, 0, [&](check::context& x) {
      p.require(x.fetch_add<order::relaxed, scope::system>(&leftover, 1u) != 0, "not the first time");
    });
  });
  EXPECT_EQ(r.found, check::verdict::not_reproducible) << r.text;
}

TEST(checker, what_is_drawn_for_a_look_at_lines_is_the_same_when_its_schedule_runs_again) {
  check::bounds limits;
  limits.looks = 2;
  for (int others = 1; others < 8; ++others) {  // steps for which the look is not taken
    const auto r = check::explore(limits, [&](check::program& p) {
      auto* lines = p.allocate<std::byte>(line_access_bytes, "lines");
      auto* counter = p.allocate<std::uint32_t>(1, "counter");
      p.spawn(0, 0, 0, [=](check::context& x) {
        x.store_lines(lines, litmus::lines_of(1, 1));
        for (int i = 0; i < others; ++i) x.fetch_add<order::relaxed, scope::system>(counter, 1u);
      });
      p.spawn(1, 0, 0, [=, &p](check::context& x) {
        const litmus::line_lanes seen = x.load_lines(lines);
        constexpr const char* lines_missing[] = {"the first", "the second", "the third", "the fourth"};
        for (int i = 0; i < lines_of_access; ++i) p.require(litmus::said(seen, i) == 1, lines_missing[i]);
      });
    });
    EXPECT_EQ(r.found, check::verdict::broken_promise) << others << ": " << r.text;
  }
}

TEST(checker, an_endless_poll_by_hand_is_reported_as_too_long) {
  check::bounds limits;
  limits.max_steps = 50;
  const auto r = check::explore(limits, [](check::program& p) {
    auto* flag = p.allocate<std::uint32_t>(1, "flag");
    p.spawn(0, 0, 0, [=](check::context& x) {
      while (x.load<order::acquire, scope::system>(flag) == 0) {
      }
    });
  });
  EXPECT_EQ(r.found, check::verdict::too_long) << r.text;
}

TEST(checker, an_endless_poll_of_plain_memory_is_reported_as_too_long) {
  const auto r = check::explore({}, [](check::program& p) {
    auto* flag = p.allocate<std::uint32_t>(1, "flag");
    p.spawn(0, 0, 0, [=](check::context& x) {
      while (x.read(flag) == 0) {
      }
    });
  });
  EXPECT_EQ(r.found, check::verdict::too_long) << r.text;
  EXPECT_NE(r.text.find("does it poll plain memory?"), std::string::npos) << r.text;
}

TEST(checker, more_stores_than_a_wait_has_words_are_all_waited_for) {
  const auto r = check::explore({}, [](check::program& p) {
    p.shared_memory(litmus::async_shared_bytes);
    auto* to = p.allocate<vec16>(33, "to");
    p.spawn(0, 0, 0, [=](check::context& x) {
      for (int i = 0; i < 4; ++i) x.write(litmus::room(x) + i, 1u);
      x.fence_proxy_async();
      for (int i = 0; i < 33; ++i) x.bulk_store(to + i, litmus::room(x), 16);
      x.bulk_commit();
      x.bulk_wait_read();
      x.write(litmus::room(x), 2u);
    });
  });
  EXPECT_TRUE(r.holds()) << r.text;
}

TEST(checker, a_clock_that_would_wrap_is_reported_as_too_long) {
  const auto r = check::explore({}, [](check::program& p) {
    auto* data = p.allocate<std::uint32_t>(1, "data");
    p.spawn(0, 0, 0, [=](check::context& x) {
      for (int i = 0; i < 65'535; ++i) x.fence<order::release, scope::system>();
      x.write(data, 1u);
    });
    p.spawn(1, 0, 0, [=](check::context& x) { x.read(data); });
  });
  EXPECT_EQ(r.found, check::verdict::too_long) << r.text;
}

TEST(checker, an_access_outside_memory_says_how_far) {
  const auto r = check::explore({}, [](check::program& p) {
    auto* row = p.allocate<std::uint32_t>(64, "row");
    p.allocate<std::uint32_t>(64, "next row");
    p.spawn(0, 0, 0, [=](check::context& x) { x.write(row + 64, 1u); });
  });
  EXPECT_EQ(r.found, check::verdict::outside_memory);
  EXPECT_NE(r.text.find("256 bytes after the beginning of row[0], which has 256"), std::string::npos)
      << r.text;
}

/// Block 0 waits for the last of 8 blocks.
check::result wait_for_the_last_block(int resident) {
  check::bounds limits;
  limits.resident_blocks = resident;
  return check::explore(limits, [](check::program& p) {
    auto* flag = p.allocate<std::uint32_t>(1, "flag");
    for (int block = 0; block < 8; ++block) {
      p.spawn(0, block, 0, [=](check::context& x) {
        for (std::uint32_t kernel = 1; kernel <= 2; ++kernel) {
          if (block == 7) x.store<order::release, scope::device>(flag, kernel);
          if (block == 0) litmus::wait_for<order::acquire, scope::device>(x, flag, kernel);
          x.next_kernel();
        }
      });
    }
  });
}

TEST(checker, a_block_that_finds_no_room_does_not_run) {
  EXPECT_TRUE(wait_for_the_last_block(0).holds());
  EXPECT_TRUE(wait_for_the_last_block(2).holds()) << wait_for_the_last_block(2).text;  // the others make room
  const auto r = wait_for_the_last_block(1);
  EXPECT_EQ(r.found, check::verdict::deadlock);
  EXPECT_NE(r.text.find("block 7 warp 0 waits for one of the 1 resident blocks to end"), std::string::npos)
      << r.text;
}

TEST(checker, what_a_block_did_is_not_known_to_the_one_that_takes_its_place) {
  check::bounds limits;
  limits.resident_blocks = 1;
  const auto r = check::explore(limits, [](check::program& p) {
    auto* data = p.allocate<std::uint32_t>(1, "data");
    for (int block = 0; block < 2; ++block)
      p.spawn(0, block, 0, [=](check::context& x) { x.write(data, 1u); });
  });
  EXPECT_EQ(r.found, check::verdict::data_race);
}

TEST(checker, counts_commute_so_that_who_is_last_is_all_that_differs) {
  constexpr int blocks = 6, rounds = 2;
  const auto r = check::explore({}, [](check::program& p) {
    auto* counter = p.allocate<std::uint32_t>(rounds, "counter");
    for (int block = 0; block < blocks; ++block) {
      p.spawn(0, block, 0, [=](check::context& x) {
        for (int round = 0; round < rounds; ++round)
          if (x.count_to<order::acq_rel, scope::device>(counter + round, 1u, std::uint32_t{blocks}))
            x.store<order::relaxed, scope::device>(counter + round, 0u);
      });
    }
  });
  EXPECT_TRUE(r.holds()) << r.text;
  EXPECT_EQ(r.executions, 36u);  // 6 may be the last of each round, of 720 orders of each
}

TEST(checker, a_preemption_bound_covers_fewer_schedules) {
  const auto executions = [](int preemptions) {
    check::bounds limits;
    limits.how = check::reduction::none;
    limits.max_preemptions = preemptions;
    return check::explore(limits,
                          [](check::program& p) {
                            auto* x = p.allocate<std::uint32_t>(1, "x");
                            for (int rank = 0; rank < 2; ++rank) {
                              p.spawn(rank, 0, 0, [=](check::context& c) {
                                for (int i = 0; i < 3; ++i) c.fetch_add<order::relaxed, scope::system>(x, 1u);
                              });
                            }
                          })
        .executions;
  };
  EXPECT_EQ(executions(0), 2u);    // one after the other
  EXPECT_EQ(executions(-1), 20u);  // 6 choose 3
  EXPECT_GT(executions(1), executions(0));
  EXPECT_LT(executions(1), executions(-1));
}

TEST(checker, arrivals_of_a_phase_commute_so_one_schedule_stands_for_all) {
  constexpr int warps = 6;
  const auto r = check::explore({}, [](check::program& p) {
    p.shared_memory(litmus::async_shared_bytes);
    for (int w = 0; w < warps; ++w) {
      p.spawn(0, 0, w, [](check::context& x) {
        litmus::begin(x, warps);
        for (std::uint32_t phase = 0; phase < 3; ++phase) {
          x.mbarrier_arrive(litmus::bar(x), 1);
          if (!litmus::await(x, litmus::bar(x), parity_of(phase))) return;
        }
      });
    }
  });
  EXPECT_TRUE(r.holds()) << r.text;
  EXPECT_EQ(r.executions, 1u);
}

TEST(checker, a_body_that_throws_is_a_finding) {
  const auto r = check::explore({}, [](check::program& p) {
    p.spawn(0, 0, 0, [](check::context&) { throw std::runtime_error{"no such expert"}; });
  });
  EXPECT_EQ(r.found, check::verdict::thrown);
  EXPECT_NE(r.text.find("no such expert"), std::string::npos) << r.text;
}

}  // namespace
}  // namespace baton
