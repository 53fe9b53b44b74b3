#pragma once
// The list of all litmus programs with what they must show.
#include "tests/check/copy_litmus.hpp"
#include "tests/check/counted_litmus.hpp"
#include "tests/check/line_litmus.hpp"
#include "tests/check/litmus_programs.hpp"
#include "tests/check/meeting_litmus.hpp"
#include "tests/check/product_litmus.hpp"
#include "tests/check/warp_litmus.hpp"

namespace baton::litmus {

inline std::vector<test> message_passing_tests() {
  constexpr check::position same_rank{0, 1, 0}, same_block{0, 0, 1}, other_rank{1, 0, 0};
  using enum verdict;
  return {
      message_passing<release, acquire, sys, sys>("MP release, acquire", other_rank, none),
      message_passing<relaxed, acquire, sys, sys>("MP relaxed store", other_rank, data_race),
      message_passing<release, relaxed, sys, sys>("MP relaxed wait", other_rank, data_race),
      message_passing<release, acquire, dev, dev>("MP device scope, one rank", same_rank, none),
      message_passing<release, acquire, dev, sys>("MP device-scope store, two ranks", other_rank, scope_race),
      message_passing<release, acquire, sys, dev>("MP device-scope wait, two ranks", other_rank, scope_race),
      message_passing<release, acquire, blk, blk>("MP block scope, one block", same_block, none),
      message_passing<release, acquire, scope::cluster, scope::cluster>("MP cluster scope, two clusters",
                                                                        same_rank, scope_race),
      message_passing<release, acquire, scope::cluster, scope::cluster>("MP cluster scope, one block",
                                                                        same_block, none),
      message_passing<release, acquire, blk, dev>("MP block-scope store, two blocks", same_rank, scope_race),
      message_passing_by_fences<true, true, sys>("MP fences", other_rank, none),
      message_passing_by_fences<false, true, sys>("MP without the writer's fence", other_rank, data_race),
      message_passing_by_fences<true, false, sys>("MP without the reader's fence", other_rank, data_race),
      message_passing_by_fences<true, true, dev>("MP device-scope fences, two ranks", other_rank, data_race),
      message_passing_by_fences<true, true, dev>("MP device-scope fences, one rank", same_rank, none),
      message_passing_by_loads<release, acquire>("MP loads, release and acquire", all_words(2, {"10"})),
      message_passing_by_loads<relaxed, acquire>("MP loads, relaxed store", all_words(2)),
      message_passing_by_loads<release, relaxed>("MP loads, relaxed load", all_words(2)),
      write_to_read_causality<release>("WRC", none),
      write_to_read_causality<relaxed>("WRC, relaxed in the middle", data_race),
      release_sequence<true>("release sequence by read-modify-write", none),
      release_sequence<false>("no release sequence by a store", data_race),
      hand_over_in_block<true>("hand-over at a barrier", none),
      hand_over_in_block<false>("hand-over without a barrier", data_race),
  };
}

inline std::vector<test> coherence_tests() {
  using enum verdict;
  return {
      {"SB",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) {
           x.store<release, sys>(c.x, 1u);
           c.r[0] = x.load<acquire, sys>(c.y);
         });
         p.spawn(1, 0, 0, [=](context& x) {
           x.store<release, sys>(c.y, 1u);
           c.r[1] = x.load<acquire, sys>(c.x);
         });
       },
       none, all_words(2), r2},
      {"LB is not modelled",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) {
           c.r[0] = x.load<relaxed, sys>(c.x);
           x.store<relaxed, sys>(c.y, 1u);
         });
         p.spawn(1, 0, 0, [=](context& x) {
           c.r[1] = x.load<relaxed, sys>(c.y);
           x.store<relaxed, sys>(c.x, 1u);
         });
       },
       none, all_words(2, {"11"}), r2},
      {"2+2W: which store lasts is open, and may differ from word to word",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) {
           x.store<relaxed, sys>(c.x, 1u);
           x.store<relaxed, sys>(c.y, 2u);
         });
         p.spawn(1, 0, 0, [=](context& x) {
           x.store<relaxed, sys>(c.y, 1u);
           x.store<relaxed, sys>(c.x, 2u);
         });
       },
       unordered_stores},
      {"S: a store after a relaxed load of the news may still be the older one",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) {
           x.store<relaxed, sys>(c.x, 2u);
           x.store<relaxed, sys>(c.y, 1u);
         });
         p.spawn(1, 0, 0, [=](context& x) {
           if (wait_for<relaxed, sys>(x, c.y, 1)) x.store<relaxed, sys>(c.x, 1u);
         });
       },
       unordered_stores},
      {"S with release and acquire",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) {
           x.store<relaxed, sys>(c.x, 2u);
           x.store<release, sys>(c.y, 1u);
         });
         p.spawn(1, 0, 0, [=](context& x) {
           if (wait_for<acquire, sys>(x, c.y, 1)) x.store<relaxed, sys>(c.x, 1u);
         });
       },
       none,
       {"1"},
       final_x},
      {"a store after a relaxed read of the one it replaces is ordered",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) { x.store<relaxed, sys>(c.x, 2u); });
         p.spawn(1, 0, 0, [=](context& x) {
           if (wait_for<relaxed, sys>(x, c.x, 2)) x.store<relaxed, sys>(c.x, 1u);
         });
       },
       none,
       {"1"},
       final_x},
      {"a store that a read-modify-write may overtake",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) { x.fetch_add<relaxed, sys>(c.x, 1u); });
         p.spawn(1, 0, 0, [=](context& x) { x.store<relaxed, sys>(c.x, 5u); });
       },
       unordered_stores},
      {"a release goes on in later stores of its warp to the word",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) {
           x.write(c.data, 1u);
           x.store<release, sys>(c.x, 1u);
           x.store<relaxed, sys>(c.x, 2u);
         });
         p.spawn(1, 0, 0, [=](context& x) {
           if (wait_for<acquire, sys>(x, c.x, 2)) x.read(c.data);
         });
       },
       none},
      {"it does not cover what came after it",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) {
           x.store<release, sys>(c.x, 1u);
           x.write(c.data, 1u);
           x.store<relaxed, sys>(c.x, 2u);
         });
         p.spawn(1, 0, 0, [=](context& x) {
           if (wait_for<acquire, sys>(x, c.x, 2)) x.read(c.data);
         });
       },
       data_race},
      {"CoRR",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) {
           x.store<relaxed, sys>(c.x, 1u);
           x.store<relaxed, sys>(c.x, 2u);
         });
         p.spawn(1, 0, 0, [=](context& x) {
           c.r[0] = x.load<relaxed, sys>(c.x);
           c.r[1] = x.load<relaxed, sys>(c.x);
         });
       },
       none,
       {"00", "01", "02", "11", "12", "22"},
       r2},
      {"CoRR across an acquire: what the other has read is old news",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) { x.store<relaxed, sys>(c.x, 1u); });
         p.spawn(1, 0, 0, [=](context& x) {
           c.r[0] = x.load<relaxed, sys>(c.x);
           x.store<release, sys>(c.y, 1u);
         });
         p.spawn(2, 0, 0, [=](context& x) {
           c.r[1] = x.load<acquire, sys>(c.y);
           c.r[2] = x.load<relaxed, sys>(c.x);
         });
       },
       none, all_words(3, {"110"}), r3},
      independent_reads<acquire>("IRIW: readers may disagree", all_words(4)),
      {"lost update: the stores are not ordered",
       [](program& p, const cells& c) {
         for (int rank = 0; rank < 2; ++rank) {
           p.spawn(rank, 0, 0, [=](context& x) {
             const std::uint32_t v = x.load<relaxed, sys>(c.x);
             x.store<relaxed, sys>(c.x, v + 1);
           });
         }
       },
       unordered_stores},
      {"no update lost by fetch_add",
       [](program& p, const cells& c) {
         for (int rank = 0; rank < 3; ++rank) {
           p.spawn(rank, 0, 0, [=](context& x) { c.r[rank] = x.fetch_add<relaxed, sys>(c.x, 1u); });
         }
       },
       none,
       {"012", "021", "102", "120", "201", "210"},
       r3},
      {"exchange and fetch_min",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) { c.r[0] = x.exchange<relaxed, sys>(c.x, 5u); });
         p.spawn(1, 0, 0, [=](context& x) { c.r[1] = x.fetch_min<relaxed, sys>(c.x, 3u); });
       },
       none,
       {"00", "05"},
       r2},
  };
}

inline std::vector<test> plain_access_tests() {
  using enum verdict;
  return {
      {"a write after the release is not covered by it",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) {
           x.store<release, sys>(c.x, 1u);
           x.write(c.data, 1u);
         });
         p.spawn(1, 0, 0, [=](context& x) {
           wait_for<acquire, sys>(x, c.x, 1);
           x.read(c.data);
         });
       },
       data_race},
      {"a read must be over before the other writes",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) {
           x.read(c.data);
           x.store<relaxed, sys>(c.x, 1u);
         });
         p.spawn(1, 0, 0, [=](context& x) {
           wait_for<acquire, sys>(x, c.x, 1);
           x.write(c.data, 1u);
         });
       },
       data_race},
      {"two reads do not race",
       [](program& p, const cells& c) {
         for (int rank = 0; rank < 2; ++rank) p.spawn(rank, 0, 0, [=](context& x) { x.read(c.data); });
       },
       none},
      {"a plain write races with an atomic load",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) { x.write(c.x, 1u); });
         p.spawn(1, 0, 0, [=](context& x) { x.load<acquire, sys>(c.x); });
       },
       data_race},
      {"a word set up plainly and handed over is an atomic word",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) {
           x.write(c.x, 3u);
           x.store<release, sys>(c.y, 1u);
         });
         p.spawn(1, 0, 0, [=](context& x) {
           wait_for<acquire, sys>(x, c.y, 1);
           c.r[0] = x.fetch_add<relaxed, sys>(c.x, 1u);
         });
       },
       none,
       {"3"},
       r1},
      {"one address as words of two sizes",
       [](program& p, const cells&) {
         auto* pair = p.allocate<std::uint64_t>(1, "pair");
         p.spawn(0, 0, 0, [=](context& x) {
           x.store<relaxed, sys>(reinterpret_cast<std::uint32_t*>(pair), 1u);
           x.load<relaxed, sys>(pair);
         });
       },
       mixed_size},
      {"a write past the end of an allocation",
       [](program& p, const cells& c) { p.spawn(0, 0, 0, [=](context& x) { x.write(c.x + 1, 7u); }); },
       outside_memory},
      {"a word that is half outside",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) { x.load<relaxed, sys>(reinterpret_cast<std::uint64_t*>(c.x)); });
       },
       outside_memory},
      {"a null pointer",
       [](program& p, const cells&) {
         p.spawn(0, 0, 0,
                 [=](context& x) { x.store<relaxed, sys>(static_cast<std::uint32_t*>(nullptr), 1u); });
       },
       outside_memory},
      {"a kernel boundary orders a rank's blocks",
       [](program& p, const cells& c) {
         for (int block = 0; block < 2; ++block) {
           p.spawn(0, block, 0, [=](context& x) {
             if (block == 0) x.write(c.data, 1u);
             x.next_kernel();
             if (block == 1) x.read(c.data);
           });
         }
       },
       none},
  };
}

inline std::vector<test> waiting_tests() {
  using enum verdict;
  return {
      {"a wait that nobody ends",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) { wait_for<acquire, sys>(x, c.x, 1); });
         p.spawn(1, 0, 0, [=](context& x) { x.store<release, sys>(c.x, 2u); });
       },
       deadlock},
      {"a value that is there for a moment only can be missed",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) { wait_for<acquire, sys>(x, c.x, 1); });
         p.spawn(1, 0, 0, [=](context& x) {
           x.store<release, sys>(c.x, 1u);
           x.store<release, sys>(c.x, 2u);
         });
       },
       deadlock},
      {"two warps that wait for each other",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) {
           wait_for<acquire, sys>(x, c.x, 1);
           x.store<release, sys>(c.y, 1u);
         });
         p.spawn(1, 0, 0, [=](context& x) {
           wait_for<acquire, sys>(x, c.y, 1);
           x.store<release, sys>(c.x, 1u);
         });
       },
       deadlock},
      {"a barrier that one warp skips",
       [](program& p, const cells&) {
         p.spawn(0, 0, 0, [](context& x) { x.sync_block(); });
         p.spawn(0, 0, 1, [](context&) {});
       },
       divergence},
      {"a wait that may give up does and does not",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) { c.r[0] = wait_for<acquire, sys>(x, c.x, 1) ? 1 : 0; });
         p.spawn(1, 0, 0, [=](context& x) { x.store<release, sys>(c.x, 1u); });
       },
       none,
       {"0", "1"},
       r1,
       true},
      {"a reader that gives up and goes on reading races",
       [](program& p, const cells& c) {
         p.spawn(0, 0, 0, [=](context& x) {
           wait_for<acquire, sys>(x, c.x, 1);
           x.read(c.data);
         });
         p.spawn(1, 0, 0, [=](context& x) {
           x.write(c.data, 1u);
           x.store<release, sys>(c.x, 1u);
         });
       },
       data_race,
       {},
       {},
       true},
  };
}

inline std::vector<test> all_tests() {
  std::vector<test> all;
  for (const auto& group :
       {message_passing_tests(), coherence_tests(), plain_access_tests(), waiting_tests(), counting_tests(),
        giving_up_tests(), lane_tests(), phase_tests(), copy_tests(), shared_memory_tests(), line_tests(),
        counted_tests(), meeting_tests(), product_tests()}) {
    all.insert(all.end(), group.begin(), group.end());
  }
  return all;
}

}  // namespace baton::litmus
