// First rows of experts' sources, as a warp numbers them, whatever the compiler knows of the number of ranks.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/ep/per_rank/plan.hpp"
#include "sim/context.hpp"

namespace baton::ep::per_rank {
namespace {

struct numbering {
  int experts, ranks, alignment;
};

shape shape_of(const numbering& n, int rank) {
  shape s{n.experts, n.ranks, rank, 8, 256, 128, token_format::bf16};
  s.least_alignment = static_cast<std::uint8_t>(n.alignment);
  return s;
}

std::vector<int> some_counts(const shape& s) {
  std::mt19937 random{static_cast<unsigned>((s.num_experts * 8 + s.num_ranks) * 8 + s.rank)};
  std::vector<int> counts(static_cast<std::size_t>(s.num_local_experts(s.rank) * s.num_ranks));
  for (int& count : counts) count = random() % 3 == 0 ? 0 : static_cast<int>(random() % 129);
  return counts;
}

std::vector<int> first_rows_of(const shape& s, const std::vector<int>& counts) {
  std::vector<int> first(counts.size());
  int next = 0;
  for (std::size_t pair = 0; pair < counts.size();) {
    int row = next;
    for (int r = 0; r < s.num_ranks; ++r, ++pair) {
      first[pair] = row;
      row += counts[pair];
    }
    next += align_up(row - next, s.row_alignment());
  }
  return first;
}

/// f(a byte) of all that lies behind counts and behind first rows.
template <class F>
void each_byte_behind(sim::context& x, const dispatch_plan& shared, F f) {
  for (std::uint32_t at = shared.spare.offset; at < shared.first_row.offset; ++at) f(x.shared()[at]);
  for (std::uint32_t at = shared.ids.offset; at < shared.bytes; ++at) f(x.shared()[at]);
}

/// What a warp makes of these counts, where nothing else is touched.
template <int KnownRanks>
std::vector<int> numbered(const shape& s, const std::vector<int>& counts) {
  const sized<dispatch_params, KnownRanks> p{{{{s, cells{s}}}}};
  const dispatch_plan shared{s, 1};
  EXPECT_EQ(shared.rows.offset % sizeof(vec16), 0u);
  EXPECT_EQ(shared.first_row.offset % sizeof(vec16), 0u);
  std::vector<int> found(counts.size());
  sim::machine m{1, {}};
  m.launch(0, {1, 1, shared.bytes}, [&](sim::context& x) {
    const row_index<sized<dispatch_params, KnownRanks>> rows = shared.find_rows(x, p);
    x.each(shared.zeros(), [&](int i) { x.write(reinterpret_cast<vec16*>(rows.bits) + i, vec16{}); });
    x.each(static_cast<int>(counts.size()),
           [&](int i) { x.write(rows.rows + i, counts[static_cast<std::size_t>(i)]); });
    constexpr std::byte untouched{0xa5};
    each_byte_behind(x, shared, [&](std::byte& b) { b = untouched; });
    rows.number(x);
    int touched = 0;
    each_byte_behind(x, shared, [&](std::byte& b) { touched += b == untouched ? 0 : 1; });
    EXPECT_EQ(touched, 0);
    x.each(static_cast<int>(counts.size()),
           [&](int i) { found[static_cast<std::size_t>(i)] = x.read(rows.first_row + i); });
  });
  m.run(0);
  return found;
}

class exchange_row_index : public testing::TestWithParam<numbering> {};

TEST_P(exchange_row_index, an_experts_rows_follow_the_one_befores_and_each_sources_the_one_befores) {
  for (int rank = 0; rank < GetParam().ranks; ++rank) {
    const shape s = shape_of(GetParam(), rank);
    const std::vector<int> counts = some_counts(s), expected = first_rows_of(s, counts);
    EXPECT_EQ(numbered<0>(s, counts), expected);
    if (s.num_ranks == 2) EXPECT_EQ(numbered<2>(s, counts), expected);
    if (s.num_ranks == 4) EXPECT_EQ(numbered<4>(s, counts), expected);
    if (s.num_ranks == 8) EXPECT_EQ(numbered<8>(s, counts), expected);
  }
}

std::vector<numbering> some_numberings() {
  std::vector<numbering> all;
  for (const int ranks : {2, 4, 8})
    for (const int experts : {1, ranks, 3 * ranks - 1, 33 * ranks, 256, 1024})
      for (const int alignment : {1, 16, 128}) all.push_back({experts, ranks, alignment});
  return all;
}

INSTANTIATE_TEST_SUITE_P(cpu, exchange_row_index, testing::ValuesIn(some_numberings()), [](const auto& of) {
  const numbering& n = of.param;
  return std::to_string(n.experts) + "_experts_of_" + std::to_string(n.ranks) + "_ranks_aligned_to_" +
         std::to_string(n.alignment);
});

}  // namespace
}  // namespace baton::ep::per_rank
