#pragma once
// Litmus programs of lines: what one shows whole, what several do not show together, and that they order nothing else.
#include <cstring>

#include "protocol/line.hpp"
#include "tests/check/litmus_programs.hpp"

namespace baton::litmus {

using line_lanes = context::lanes<vec16>;

/// Four lines of which every word says `value`, with the flag of `round`.
inline line_lanes lines_of(std::uint32_t value, std::uint64_t round) {
  line_lanes v;
  for (int lane = 0; lane < warp_lanes; ++lane)
    v[lane] =
        holds_flag(lane) ? with_flag(value, value, line_flag(round)) : vec16{{value, value, value, value}};
  return v;
}

/// What the line-th line says, or 9 if it does not say one thing.
inline std::uint32_t said(const line_lanes& v, int line) {
  const std::uint32_t first = v[line * lanes_of_line].word[0];
  for (int lane = line * lanes_of_line; lane < (line + 1) * lanes_of_line; ++lane) {
    for (int i = 0; i < (holds_flag(lane) ? 2 : 4); ++i)
      if (v[lane].word[i] != first) return 9;
  }
  return first;
}

inline bool wait_for_lines(context& x, const std::byte* from, std::uint64_t round, line_lanes& v) {
  line_lanes seen[1];
  const bool here = await_lines(x, line_places<1>{{from}}, round, {.where = "test"}, seen);
  v = seen[0];
  return here;
}

/// A line that tears: its flag is there before its data.
inline void store_torn(context& x, std::byte* to, std::uint32_t value, std::uint64_t round) {
  line_lanes torn = x.load_lines(to);
  const line_lanes whole = lines_of(value, round);
  for (int lane = 0; lane < warp_lanes; ++lane)
    if (holds_flag(lane)) torn[lane] = with_flag(torn[lane].word[0], torn[lane].word[1], line_flag(round));
  x.store_lines(to, torn);
  x.store_lines(to, whole);
}

/// One store of four lines and one reader.
template <class Write, class Read>
test with_lines(const char* name, Write write, Read read, verdict expected,
                std::set<std::string> outcomes = {}) {
  return {name,
          [=](program& p, const cells& c) {
            auto* line = p.allocate<std::byte>(line_access_bytes, "line");
            p.spawn(0, 0, 0, [=](context& x) { write(x, line, c); });
            p.spawn(1, 0, 0, [=, &p](context& x) { read(x, line, c, p); });
          },
          expected, std::move(outcomes), r2};
}

/// Lines in rounds, of several writers, and what a wait may look at beside them.
inline std::vector<test> line_tests_of_rounds() {
  using enum verdict;
  const auto two_writers = [](program& p, const cells&) {
    auto* line = p.allocate<std::byte>(line_access_bytes, "line");
    for (int rank = 0; rank < 2; ++rank)
      p.spawn(rank, 0, 0, [=](context& x) { x.store_lines(line, lines_of(1, 1)); });
  };
  const auto answered = [](program& p, const cells& c) {
    auto *line = p.allocate<std::byte>(line_access_bytes, "line"),
         *answer = p.allocate<std::byte>(line_access_bytes, "answer");
    p.spawn(0, 0, 0, [=](context& x) {
      line_lanes v;
      x.store_lines(line, lines_of(1, 1));
      if (wait_for_lines(x, answer, 1, v)) x.store_lines(line, lines_of(2, 2));
    });
    p.spawn(1, 0, 0, [=](context& x) {
      line_lanes v;
      if (wait_for_lines(x, line, 1, v)) c.r[0] = said(v, 2);
      x.store_lines(answer, lines_of(1, 1));
      if (wait_for_lines(x, line, 2, v)) c.r[1] = said(v, 1);
    });
  };
  const auto told_to_stop = [](program& p, const cells& c) {
    auto* line = p.allocate<std::byte>(line_access_bytes, "line");
    p.spawn(1, 0, 0, [=](context& x) { x.store_lines(line, lines_of(1, 1)); });
    p.spawn(0, 0, 0, [=](context& x) {
      line_lanes seen[1];
      const auto done = [&](int lane, const vec16(&v)[1]) {
        return carries(lane, v[0], line_flag(1)) || x.load<relaxed, sys>(c.x) != 0;
      };
      x.wait_lines(line_places<1>{{line}}, done, {.where = "test"}, seen);
      c.r[0] = all_carry(x, seen, line_flag(1)) ? 1 : 0;
    });
    p.spawn(2, 0, 0, [=](context& x) {
      line_lanes v;
      if (wait_for_lines(x, line, 1, v)) x.store<relaxed, sys>(c.x, 1u);
    });
  };
  const auto late = [](program& p, const cells& c) {
    auto* line = p.allocate<std::byte>(line_access_bytes, "line");
    p.spawn(0, 0, 0, [=](context& x) { x.store_lines(line, lines_of(1, 1)); });
    p.spawn(1, 0, 0, [=](context& x) {
      line_lanes v;
      c.r[0] = wait_for_lines(x, line, 1, v) ? 1 : 2;
    });
  };
  return {{"two writers of a line without order", two_writers, unordered_stores},
          {"a line is used again when its reader has answered", answered, none, {"12"}, r2},
          {"a wait for lines ends by a word that tells it to stop, whatever the lines show",
           told_to_stop,
           none,
           {"0", "1"},
           r1},
          {"a wait for lines gives up, or does not", late, none, {"1", "2"}, r1, true}};
}

inline std::vector<test> line_tests() {
  using enum verdict;
  const auto store = [](context& x, std::byte* line, const cells&) { x.store_lines(line, lines_of(1, 1)); };
  const auto expect_all = [](context& x, const std::byte* line, const cells&, program& p) {
    line_lanes v;
    if (!wait_for_lines(x, line, 1, v)) return;
    for (int i = 0; i < lines_of_access; ++i) p.require(said(v, i) == 1, "a line is whole");
  };
  std::vector<test> all{
      with_lines("a line brings its data with its flag", store, expect_all, none),
      with_lines(
          "the lines of one access are not ordered", store,
          [](context& x, const std::byte* line, const cells& c, program&) {
            const line_lanes v = x.load_lines(line);
            c.r[0] = said(v, 0);
            c.r[1] = said(v, 3);
          },
          none, all_words(2)),
      with_lines(
          "two looks at a line do not go back", store,
          [](context& x, const std::byte* line, const cells& c, program&) {
            c.r[0] = said(x.load_lines(line), 0);
            c.r[1] = said(x.load_lines(line), 0);
          },
          none, all_words(2, {"10"})),
      with_lines(
          "data beside a line is not covered by it",
          [](context& x, std::byte* line, const cells& c) {
            x.write(c.data, 1u);
            x.store_lines(line, lines_of(1, 1));
          },
          [](context& x, const std::byte* line, const cells& c, program&) {
            line_lanes v;
            if (wait_for_lines(x, line, 1, v)) x.read(c.data);
          },
          data_race),
      with_lines(
          "nor by one between fences",
          [](context& x, std::byte* line, const cells& c) {
            x.write(c.data, 1u);
            x.fence<release, sys>();
            x.store_lines(line, lines_of(1, 1));
          },
          [](context& x, const std::byte* line, const cells& c, program&) {
            line_lanes v;
            if (!wait_for_lines(x, line, 1, v)) return;
            x.fence<acquire, sys>();
            x.read(c.data);
          },
          data_race),
      with_lines(
          "a line says nothing of a word beside it",
          [](context& x, std::byte* line, const cells& c) {
            x.store<relaxed, sys>(c.x, 1u);
            x.store_lines(line, lines_of(1, 1));
          },
          [](context& x, const std::byte* line, const cells& c, program&) {
            line_lanes v;
            if (wait_for_lines(x, line, 1, v)) c.r[0] = x.load<relaxed, sys>(c.x);
          },
          none, {"00", "10"}),
      with_lines(
          "a plain read of a line races with its store", store,
          [](context& x, const std::byte* line, const cells&, program&) {
            x.read(reinterpret_cast<const vec16*>(line));
          },
          data_race),
      with_lines(
          "a word inside a line", store,
          [](context& x, const std::byte* line, const cells&, program&) {
            x.load<relaxed, sys>(reinterpret_cast<const std::uint64_t*>(line + 8));
          },
          mixed_size),
      with_lines(
          "a torn line: its flag is there before its data",
          [](context& x, std::byte* line, const cells&) { store_torn(x, line, 1, 1); }, expect_all,
          broken_promise),
      with_lines(
          "a line that is stored twice in a round",
          [](context& x, std::byte* line, const cells&) {
            x.store_lines(line, lines_of(1, 1));
            x.store_lines(line, lines_of(2, 1));
          },
          expect_all, broken_promise),
      with_lines(
          "a line that is used again before it was read",
          [](context& x, std::byte* line, const cells&) {
            x.store_lines(line, lines_of(1, 1));
            x.store_lines(line, lines_of(2, 2));
          },
          expect_all, deadlock),
  };
  const auto more = line_tests_of_rounds();
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace baton::litmus
