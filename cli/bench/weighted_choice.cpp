#include "cli/bench/weighted_choice.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace baton::cli {

weighted_choice::weighted_choice(std::span<const double> shares) : up_to_(shares.size()) {
  std::partial_sum(shares.begin(), shares.end(), up_to_.begin());
}

std::int32_t weighted_choice::operator()(random_bits& random) const {
  const double place = random_bits::unit_53(random.next()) * up_to_.back();
  return static_cast<std::int32_t>(std::upper_bound(up_to_.begin(), up_to_.end() - 1, place) -
                                   up_to_.begin());
}

weighted_choice zipf_choice(int count) {
  std::vector<double> shares;
  for (int n = 1; n <= count; ++n) shares.push_back(1.0 / n);
  return weighted_choice{shares};
}

std::vector<std::int32_t> shuffled(int count, std::uint64_t seed) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  random_bits random{seed};
  for (int i = count - 1; i > 0; --i)
    std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(random.below(i + 1))]);
  return order;
}

}  // namespace baton::cli
