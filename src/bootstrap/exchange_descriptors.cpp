#include "bootstrap/exchange_descriptors.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>

#include "baton/error.hpp"
#include "bootstrap/rank_list.hpp"
#include "bootstrap/unix_socket.hpp"

namespace baton::bootstrap {
namespace {

/// Where a rank listens, and the note its visitors have to know: what came by another way is not ours.
struct card {
  std::int64_t pid = 0;
  std::uint64_t salt = 0;
  std::uint64_t secret = 0;
};

std::string name_of(const card& c) {
  return fmt::format("baton-descriptor-{}-{:016x}", c.pid, c.salt);
}

/// Never waits for the receiver to look: a connection and eight bytes fit the listener's queue.
void send_to_all(const group& g, const std::vector<card>& cards, int mine, const time_limit& limit) {
  for (int r = 0; r < g.size; ++r) {
    if (r == g.rank) continue;
    const card& to = cards[static_cast<std::size_t>(r)];
    const std::optional<file_descriptor> door = connect_to(name_of(to), limit);
    const std::uint64_t note = to.secret ^ static_cast<std::uint64_t>(g.rank);
    if (!door || send_descriptor(*door, mine, note, limit) != io::done)
      throw transport_error{
          fmt::format("rank {} could not hand a memory handle to rank {} (process {}) over a Unix "
                      "socket: processes must share the network namespace",
                      g.rank, r, to.pid)};
  }
}

std::vector<int> missing_of(const group& g, const std::vector<file_descriptor>& received) {
  std::vector<int> missing;
  for (int r = 0; r < g.size; ++r)
    if (r != g.rank && !received[static_cast<std::size_t>(r)]) missing.push_back(r);
  return missing;
}

std::vector<file_descriptor> receive_from_all(const group& g, const file_descriptor& listener,
                                              const card& own, const time_limit& limit) {
  std::vector<file_descriptor> received(static_cast<std::size_t>(g.size));
  for (;;) {
    const std::vector<int> missing = missing_of(g, received);
    if (missing.empty()) return received;
    const std::optional<file_descriptor> visitor = accept_from(listener, limit);
    if (!visitor)
      throw transport_error{fmt::format("rank {} waited {} ms for the memory handle of {}", g.rank,
                                        g.deadline.count(), rank_list(missing))};
    file_descriptor fd;
    std::uint64_t note = 0;
    if (receive_descriptor(*visitor, fd, note, limit) != io::done) continue;
    const std::uint64_t rank = note ^ own.secret;
    if (rank < received.size()) received[rank] = std::move(fd);
  }
}

}  // namespace

std::vector<file_descriptor> exchange_descriptors(const group& g, int mine) {
  const card own{::getpid(), random_bits(), random_bits()};
  file_descriptor listener;
  together(g, [&] { listener = listen_at(name_of(own), g.size); });
  const std::vector<card> cards = gather(g, own);
  std::vector<file_descriptor> received;
  const time_limit limit{g.deadline};
  // Also the barrier that keeps every listener open until all have sent and received.
  together(g, [&] {
    send_to_all(g, cards, mine, limit);
    received = receive_from_all(g, listener, own, limit);
  });
  return received;
}

}  // namespace baton::bootstrap
