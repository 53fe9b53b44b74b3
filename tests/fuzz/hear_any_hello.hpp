#pragma once
// What the fuzzers do with one input: somebody connects to rank 0 and says it.
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "baton/error.hpp"
#include "bootstrap/admission.hpp"
#include "tests/fuzz/verdict.hpp"

namespace baton::test {

/// Rank 0 of four, of a job that the launcher names.
inline const bootstrap::rendezvous_config& heard_by() {
  static const bootstrap::rendezvous_config m{
      .name = "fuzz", .rank = 0, .size = 4, .job = {.secret = 20261121, .ancestors = {}}};
  return m;
}

/// Whether rank 0 may take whoever says `input` for the rank that it came to have.
inline bool is_hello_of(std::size_t rank, std::span<const std::uint8_t> input) {
  bootstrap::hello h;
  if (input.size() < sizeof h) return false;
  std::memcpy(&h, input.data(), sizeof h);
  return h.magic == bootstrap::hello_magic && h.version == bootstrap::protocol_version && h.size == 4 &&
         h.rank > 0 && static_cast<std::size_t>(h.rank) == rank && h.job.secret == heard_by().job.secret;
}

/// Rank 0 takes it for a rank, tells it why not, or lets it go; what it throws is one of ours, and short.
inline verdict hear_any_hello(std::span<const std::uint8_t> input) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::runtime_error{"no socket pair"};
  bootstrap::file_descriptor ours{ends[0]};
  const bootstrap::file_descriptor theirs{ends[1]};
  const std::size_t said = std::min<std::size_t>(input.size(), 4096);
  if (said > 0 && ::send(theirs.get(), input.data(), said, MSG_NOSIGNAL) != static_cast<ssize_t>(said))
    throw std::runtime_error{"no room in a socket"};
  bootstrap::admission rank_0{heard_by()};
  try {
    rank_0.hear(std::move(ours));
  } catch (const transport_error& e) {
    require_short(e.what());
    return verdict::refused;
  }
  for (std::size_t rank = 0; rank < rank_0.peers().size(); ++rank)
    if (rank_0.peers()[rank]) {
      if (!is_hello_of(rank, input)) throw std::logic_error{"taken for rank " + std::to_string(rank)};
      return verdict::accepted;
    }
  return verdict::refused;
}

}  // namespace baton::test
