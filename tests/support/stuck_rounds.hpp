#pragma once
// Rounds in which ranks may be stuck, and what each of them is told.
#include <functional>

#include "baton/error.hpp"
#include "tests/support/exchange_cases.hpp"

namespace baton::test {

inline exchange_case case_of_eight_experts(int ranks) {
  return {ranks, sizes(8, 2, 64, 6), std::vector<int>(static_cast<std::size_t>(ranks), 6), routing::distinct};
}

using told_of_stuck = std::function<void(int rank, const stuck&)>;

/// What each rank's synchronize threw, which `told` is called with, too; peer -2: nothing. Experts return their rows where these
/// lie by expert, else any.
inline std::vector<stuck::details> run_until_stuck(
    std::vector<exchange_rank>& ranks, const exchange_case& c, const std::vector<rank_inputs>& inputs,
    const told_of_stuck& told = [](int, const stuck&) {}) {
  std::vector<stuck::details> found(ranks.size());
  for (auto& d : found) d.peer = -2;
  for (std::size_t r = 0; r < ranks.size(); ++r) ranks[r].load(inputs[r]);
  for (auto& r : ranks) r.dispatch_async();
  for (auto& r : ranks) r.dispatch_wait();
  std::vector<device_buffer<bfloat16>> replies;
  for (auto& r : ranks) {
    replies.emplace_back(r.ranks(), static_cast<std::size_t>(r.received().max_rows) *
                                        static_cast<std::size_t>(c.config.hidden));
    const bool have_rows = c.config.rows == ep_rows::by_expert;
    r.combine_async(have_rows ? static_cast<const bfloat16*>(r.received().tokens) : replies.back().data());
  }
  for (auto& r : ranks) r.combine_wait();
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    try {
      ranks[r].ranks().synchronize();
    } catch (const stuck& e) {
      found[r] = e.where;
      told(static_cast<int>(r), e);
    }
  }
  return found;
}
inline std::vector<stuck::details> run_until_stuck(
    std::vector<exchange_rank>& ranks, const exchange_case& c,
    const told_of_stuck& told = [](int, const stuck&) {}) {
  return run_until_stuck(ranks, c, draw_inputs(c, 1), told);
}

}  // namespace baton::test
