#pragma once
// Litmus programs of counted stores into another block of a cluster, of arrivals there, and of quiet waits.
#include "tests/check/async_litmus.hpp"

namespace baton::litmus {

/// A pair of blocks of one warp each: block 1 sends, block 0 receives. Their barriers take one arrival a phase.
template <class Send, class Receive>
test of_a_pair(const char* name, Send send, Receive receive, verdict expected, bool meets = true) {
  return {name,
          [=](program& p, const cells& c) {
            p.shared_memory(async_shared_bytes);
            p.clusters_of(2);
            for (int block = 0; block < 2; ++block) {
              p.spawn(0, block, 0, [=, &p](context& x) {
                begin(x, 1);
                block == 1 ? send(x, c) : receive(p, x, c);
                if (meets) x.sync_cluster();
              });
            }
          },
          expected};
}

/// To the other block's room, word `i`.
inline void send_word(context& x, int i, std::uint32_t v, mbarrier* b) {
  x.store_counted(x.reach(1 - x.cluster_block()), room(x) + i, v, b);
}
inline void send_seven(context& x, const cells&) {
  send_word(x, 0, 7, bar(x));
}
inline void expect_words(context& x, int n, mbarrier* b) {
  x.mbarrier_arrive_expect<scope::block>(b, 4 * n);
}

/// A block that expects `expected` words, waits at `Scope`, and reads the first.
template <scope Scope>
auto receiving(int expected) {
  return [=](program& p, context& x, const cells&) {
    expect_words(x, expected, bar(x));
    if (await<Scope>(x, bar(x), parity::even)) p.require(x.read(room(x)) == 7, "the word is there");
  };
}

inline std::vector<test> storing_tests() {
  using enum verdict;
  constexpr scope in_cluster = scope::cluster;
  const auto receive = receiving<in_cluster>(1);
  const auto send_two = [](context& x, const cells&) {
    send_word(x, 0, 7, bar(x));
    send_word(x, 1, 8, bar(x));
  };
  const auto send_by_lanes = [](context& x, const cells&) {
    x.each_lane([&](int lane) {
      if (lane < 8) send_word(x, lane, 7u, bar(x));
    });
  };
  return {
      of_a_pair("a counted store is seen by who waits for it", send_seven, receive, none),
      of_a_pair("so are those of several lanes", send_by_lanes, receiving<in_cluster>(8), none),
      of_a_pair(
          "it is not seen without a wait", send_seven,
          [](program&, context& x, const cells&) {
            expect_words(x, 1, bar(x));
            x.read(room(x));
            await<in_cluster>(x, bar(x), parity::even);
          },
          data_race),
      of_a_pair("a wait at block scope does not hear it", send_seven, receiving<blk>(1), scope_race),
      of_a_pair("fewer come than are expected", send_seven, receiving<in_cluster>(2), deadlock),
      of_a_pair("more come than are expected", send_two, receive, deadlock),
      of_a_pair(
          "it lands late: another that was counted elsewhere is no word of it",
          [](context& x, const cells&) {
            send_word(x, 0, 7, bar(x));
            send_word(x, 1, 8, bar(x, 1));
          },
          [](program&, context& x, const cells&) {
            expect_words(x, 1, bar(x));
            expect_words(x, 1, bar(x, 1));
            if (await<in_cluster>(x, bar(x, 1), parity::even)) x.read(room(x));
          },
          data_race),
      of_a_pair(
          "it is counted on the wrong barrier",
          [](context& x, const cells&) { send_word(x, 0, 7, bar(x, 1)); }, receive, deadlock),
      of_a_pair(
          "what its lane wrote before is not told of",
          [](context& x, const cells& c) {
            x.write(c.data, 1u);
            send_word(x, 0, 7, bar(x));
          },
          [](program&, context& x, const cells& c) {
            expect_words(x, 1, bar(x));
            if (await<in_cluster>(x, bar(x), parity::even)) x.read(c.data);
          },
          data_race),
      of_a_pair(
          "nor what its lane stored so before",
          [](context& x, const cells&) {
            send_word(x, 0, 7, bar(x));
            x.sync_warp();
            x.mbarrier_arrive_at(bar(x, 1), 0, 1);
          },
          [](program&, context& x, const cells&) {
            expect_words(x, 1, bar(x));
            if (await<in_cluster>(x, bar(x, 1), parity::even)) x.read(room(x));
          },
          data_race),
      of_a_pair(
          "it knows what its lane knows",
          [](context& x, const cells&) {
            x.write(room(x), 1u);
            x.write(x.in_block(room(x), 0), 6u);
            send_word(x, 0, 7, bar(x));
          },
          receive, none),
      of_a_pair(
          "but not what other lanes did since they met",
          [](context& x, const cells&) {
            x.elect([&] { x.write(x.in_block(room(x), 0), 6u); });
            x.each_lane([&](int lane) {
              if (lane == 1) send_word(x, 0, 7, bar(x));
            });
          },
          receive, data_race),
      of_a_pair(
          "a block that may end while others store there", send_seven,
          [](program&, context& x, const cells&) { expect_words(x, 1, bar(x)); }, loose_end, false),
      of_a_pair("a block may end when what others store there has come", send_seven, receive, none, false),
  };
}

/// What is read of the room, for copies: past a fence or not.
inline test sending_to_the_engine(const char* name, int to_block, bool fenced, verdict expected) {
  return {name,
          [=](program& p, const cells&) {
            p.shared_memory(async_shared_bytes);
            p.clusters_of(2);
            std::uint32_t* out = source(p);
            for (int block = 0; block < 2; ++block) {
              p.spawn(0, block, 0, [=, &p](context& x) {
                begin(x, 1);
                if (block == 0)
                  for (std::uint32_t i = 0; i < 4; ++i)
                    x.store_counted(x.reach(to_block), room(x) + i, 7u, bar(x));
                if (block == to_block) {
                  expect_words(x, 4, bar(x));
                  if (!await<scope::cluster>(x, bar(x), parity::even)) return;
                  if (fenced) x.fence_proxy_async();
                  x.bulk_store(out, room(x), 16);
                  x.bulk_commit();
                  x.bulk_wait();
                  p.require(x.read(out + 3) == 7, "what was stored went on");
                }
                x.sync_cluster();
              });
            }
          },
          expected};
}

enum class freed { by_cluster, by_block, by_block_for_engines, by_nobody, by_counted_store, before_met };

/// Block 1 stores twice to one place of block 0, which reads it in between, on its last lane, and tells so.
inline test storing_again(const char* name, freed how, verdict expected) {
  constexpr scope in_cluster = scope::cluster;
  return of_a_pair(
      name,
      [=](context& x, const cells&) {
        send_word(x, 0, 7, bar(x));
        if (how == freed::by_counted_store) expect_words(x, 1, bar(x, 1));
        const auto freed_by_now = [&] {
          return how == freed::by_block_for_engines ? await<blk>(x, bar(x, 1), parity::even)
                                                    : await<in_cluster>(x, bar(x, 1), parity::even);
        };
        if (how != freed::by_nobody && !freed_by_now()) return;
        send_word(x, 0, 8, bar(x));
      },
      [=](program& p, context& x, const cells&) {
        expect_words(x, 1, bar(x));
        if (!await<in_cluster>(x, bar(x), parity::even)) return;
        x.each_lane([&](int lane) {
          if (lane == warp_lanes - 1) p.require(x.read(room(x)) == 7, "the first word");
        });
        if (how != freed::before_met) x.sync_warp();
        if (how == freed::by_block || how == freed::by_block_for_engines || how == freed::before_met)
          x.elect([&] { x.mbarrier_arrive_at<scope::block>(bar(x, 1), 1, 1); });
        if (how == freed::by_cluster) x.elect([&] { x.mbarrier_arrive_at(bar(x, 1), 1, 1); });
        if (how == freed::by_counted_store) x.elect([&] { send_word(x, 1, 1, bar(x, 1)); });
        expect_words(x, 1, bar(x));
        if (await<in_cluster>(x, bar(x), parity::odd)) p.require(x.read(room(x)) == 8, "the second word");
      },
      expected);
}

/// Who reads a word: warp 1 of block 0, which tells the other block so; or that one itself, which then sees a phase complete that
/// it has not arrived in, or has.
enum class read_by { one_who_tells, itself, itself_before_a_phase };

/// The other block stores or arrives, and warp 0 writes over the word.
inline test telling_of_an_end(const char* name, read_by who, bool stores, verdict expected) {
  return {name,
          [=](program& p, const cells& c) {
            p.shared_memory(async_shared_bytes);
            p.clusters_of(2);
            for (int i = 0; i < 3; ++i) {
              p.spawn(0, i / 2, i % 2, [=](context& x) {
                begin(x, 1);
                if (i == 0) {
                  if (stores) expect_words(x, 1, bar(x));
                  if (await<scope::cluster>(x, bar(x), parity::even)) x.write(c.data, 1u);
                } else if (i == 1) {
                  if (who == read_by::one_who_tells) x.read(c.data);
                  if (who != read_by::itself_before_a_phase)
                    x.mbarrier_arrive_at<scope::block>(bar(x, 1), 1, 1);
                } else {
                  if (who == read_by::itself_before_a_phase) {
                    x.read(c.data);
                    x.mbarrier_arrive_at<scope::block>(bar(x, 1), 1, 1);
                  }
                  const bool is_over = await<scope::cluster>(x, bar(x, 1), parity::even);
                  if (is_over && who == read_by::itself) x.read(c.data);
                  if (is_over) {
                    stores ? send_word(x, 0, 7, bar(x)) : x.mbarrier_arrive_at(bar(x), 0, 1);
                  }
                }
                x.sync_cluster();
              });
            }
          },
          expected};
}

inline std::vector<test> ending_tests() {
  using enum verdict;
  const auto hear = [](program&, context& x, const cells& c) {
    if (await<scope::cluster>(x, bar(x), parity::even)) x.read(c.data);
  };
  return {
      sending_to_the_engine("what was stored so goes on by an engine, past a fence", 1, true, none),
      sending_to_the_engine("not without the fence", 1, false, data_race),
      sending_to_the_engine("nor in the block that stored it", 0, false, data_race),
      storing_again("a place is stored to again when its reader tells that it is free", freed::by_cluster,
                    none),
      storing_again("it may tell so at block scope, as its reads are over", freed::by_block, none),
      storing_again("a wait at block scope hears that for what engines do alone", freed::by_block_for_engines,
                    data_race),
      storing_again("not while other lanes may read", freed::before_met, data_race),
      storing_again("a place is stored to again too early", freed::by_nobody, data_race),
      storing_again("a counted store of the reader does not tell that it is free", freed::by_counted_store,
                    data_race),
      telling_of_an_end("a counted store tells that what its lane had heard of is over",
                        read_by::one_who_tells, true, none),
      telling_of_an_end("not so what the lane has read itself", read_by::itself, true, data_race),
      telling_of_an_end("but what its warp read before it arrived in a phase that it has seen complete",
                        read_by::itself_before_a_phase, true, none),
      telling_of_an_end("so does an arrival that is heard", read_by::one_who_tells, false, none),
      of_a_pair(
          "an arrival at block scope in another block does not tell of what was written",
          [](context& x, const cells& c) {
            x.write(c.data, 1u);
            x.mbarrier_arrive_at<scope::block>(bar(x), 0, 1);
          },
          hear, data_race),
      {"a quiet wait that gave up and is not reported",
       [](program& p, const cells&) {
         p.shared_memory(async_shared_bytes);
         p.spawn(0, 0, 0, [](context& x) {
           begin(x, 1);
           x.mbarrier_wait_quietly<scope::block>(bar(x), parity::even, {.where = "test"});
         });
       },
       broken_promise,
       {},
       {},
       true},
      {"a quiet wait that gave up and is reported",
       [](program& p, const cells&) {
         p.shared_memory(async_shared_bytes);
         p.spawn(0, 0, 0, [](context& x) {
           begin(x, 1);
           if (!x.mbarrier_wait_quietly<scope::block>(bar(x), parity::even, {.where = "test"}))
             x.report_late({.where = "test"});
         });
       },
       none,
       {},
       {},
       true},
  };
}

inline std::vector<test> counted_tests() {
  std::vector<test> all = storing_tests();
  for (test& t : ending_tests()) all.push_back(std::move(t));
  return all;
}

}  // namespace baton::litmus
