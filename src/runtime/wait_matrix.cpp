#include "baton/wait_times.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "baton/error.hpp"

namespace baton {
namespace {

std::size_t unsigned_of(int i) {
  return static_cast<std::size_t>(i);
}

/// What others waited for each rank.
std::vector<double> waited_for(const wait_matrix& m) {
  std::vector<double> ns(unsigned_of(m.num_ranks), 0.0);
  for (int rank = 0; rank < m.num_ranks; ++rank)
    for (int peer = 0; peer < m.num_ranks; ++peer)
      if (peer != rank) ns[unsigned_of(peer)] += static_cast<double>(m.at(rank, peer).ns);
  return ns;
}

}  // namespace

wait_matrix matrix_of(std::span<const peer_waits> of_ranks) {
  wait_matrix m{static_cast<int>(of_ranks.size()), {}};
  m.cells.resize(of_ranks.size() * of_ranks.size());
  std::vector<bool> is_there(of_ranks.size(), false);
  for (const peer_waits& own : of_ranks) {
    if (own.rank < 0 || own.rank >= m.num_ranks || own.peers.size() != of_ranks.size() ||
        is_there[unsigned_of(own.rank)])
      throw invalid_argument{fmt::format(
          "of_ranks: {} of them, one is of rank {} and {} peers; expected one of each rank of a world",
          of_ranks.size(), own.rank, own.peers.size())};
    is_there[unsigned_of(own.rank)] = true;
    std::copy(own.peers.begin(), own.peers.end(),
              m.cells.begin() + static_cast<std::ptrdiff_t>(unsigned_of(own.rank) * of_ranks.size()));
  }
  return m;
}

slow_rank slowest(const wait_matrix& m) {
  const std::vector<double> ns = waited_for(m);
  double all = 0;
  for (const double of_rank : ns) all += of_rank;
  if (all <= 0) return {};
  const auto most = std::max_element(ns.begin(), ns.end());
  const double others =
      (all - *most) / static_cast<double>(ns.size() - 1);  // some rank waited, so there are two
  if (*most < 2 * others) return {-1, *most / all};
  return {static_cast<int>(most - ns.begin()), *most / all};
}

std::string to_text(const wait_matrix& m) {
  std::string text = fmt::format("{:>24}", "waited, ms, for rank");
  for (int peer = 0; peer < m.num_ranks; ++peer) text += fmt::format(" {:>10}", peer);
  for (int rank = 0; rank < m.num_ranks; ++rank) {
    text += fmt::format("\n{:>24}", fmt::format("rank {}", rank));
    for (int peer = 0; peer < m.num_ranks; ++peer) {
      const peer_wait& w = m.at(rank, peer);
      text += w.waits == 0 ? fmt::format(" {:>10}", "-")
                           : fmt::format(" {:>10.3f}", static_cast<double>(w.ns) * 1e-6);
    }
  }
  const slow_rank slow = slowest(m);
  if (slow.rank >= 0)
    text += fmt::format("\nrank {} is slow: {:.0f} % of what ranks waited for others, they waited for it",
                        slow.rank, 100 * slow.share);
  return text + '\n';
}

}  // namespace baton
