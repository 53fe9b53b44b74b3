#pragma once
// Rounds of some ranks of a communicator: what must come of them is what comes of rounds in which the others have no tokens, and
// choices of their experts are none.
#include "tests/support/exchange_cases.hpp"

namespace baton::test {

/// The inputs of all ranks, and what they count as among these members.
struct member_inputs {
  std::vector<rank_inputs> given, counted;
};

inline member_inputs draw_member_inputs(const exchange_case& c, const ep_membership& members,
                                        std::uint64_t seed) {
  member_inputs in{draw_inputs(c, seed), {}};
  in.counted = in.given;
  for (int r = 0; r < c.ranks; ++r) {
    rank_inputs& of_rank = in.counted[static_cast<std::size_t>(r)];
    if (!members.has(r)) of_rank.num_tokens = 0;
    for (std::int32_t& id : of_rank.topk_idx)
      if (id >= 0 && !members.has(rank_of_expert(c, id))) id = -1;
  }
  return in;
}

/// Rounds with these seeds of a case that outlives them, and what must come of them; ranks in threads may look at it together.
struct member_rounds {
  member_rounds(const exchange_case& c, const ep_membership& members, std::uint64_t first_seed, int rounds) {
    for (int i = 0; i < rounds; ++i)
      in.push_back(draw_member_inputs(c, members, first_seed + static_cast<std::uint64_t>(i)));
    for (const member_inputs& of_round : in) {
      expected.push_back({c, of_round.counted});
      expected.back().outputs.resize(static_cast<std::size_t>(c.ranks));  // each rank makes its own
    }
  }
  std::vector<member_inputs> in;
  std::vector<expected_round> expected;
};

/// One rank's part. Others run theirs beside it. What is wrong, or nothing.
inline std::string run_member(const member_rounds& rounds, exchange_rank& mine) {
  const int r = mine.ranks().rank();
  for (std::size_t i = 0; i < rounds.in.size(); ++i) {
    const expected_round& expected = rounds.expected[i];
    mine.load(rounds.in[i].given[static_cast<std::size_t>(r)]);
    if (i % 2 == 0) {
      mine.dispatch_async();
      mine.dispatch_wait();
    } else {
      mine.dispatch();
    }
    const received_copy got = mine.read_received();
    std::string wrong = difference(expected, r, got);
    if (!wrong.empty()) return fmt::format("rank {}, round {}: {}", r, i, wrong);
    if (i % 2 == 0) {
      mine.reply(got);
      mine.combine_wait();
    } else {
      mine.apply_experts(got);
      mine.combine();
    }
    wrong = difference(expected_output(expected, r), mine.read_output());
    if (!wrong.empty()) return fmt::format("rank {}, round {}: {}", r, i, wrong);
  }
  return {};
}
inline std::string run_member(const exchange_case& c, exchange_rank& mine, const ep_membership& members,
                              std::uint64_t first_seed, int rounds) {
  return run_member({c, members, first_seed, rounds}, mine);
}

}  // namespace baton::test
