#pragma once
// Ranks in error texts.
#include <string>
#include <vector>

namespace baton::bootstrap {

/// "rank 3", "ranks 0, 2 and 5", and after ten of them "... and 17 more".
inline std::string rank_list(const std::vector<int>& ranks) {
  constexpr std::size_t shown = 10;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < shown; ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  if (ranks.size() > shown) text += " and " + std::to_string(ranks.size() - shown) + " more";
  return text;
}

}  // namespace baton::bootstrap
