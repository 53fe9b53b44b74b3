#include "bootstrap/exchange_descriptors.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "baton/error.hpp"
#include "bootstrap/incoming_connections.hpp"
#include "bootstrap/rank_list.hpp"
#include "bootstrap/unix_socket.hpp"

namespace baton::bootstrap {
namespace {

constexpr int strangers = 64;  // who may connect at the same time and keep no rank waiting

/// Where a rank listens, and what a connection has to bring to be one of the others.
struct endpoint {
  std::int64_t pid = 0;
  std::uint64_t salt = 0;
  std::uint64_t secret = 0;
};

std::string name_of(const endpoint& e) {
  return fmt::format("baton-descriptor-{}-{:016x}", e.pid, e.salt);
}

/// Never waits for the receiver to look: a connection and eight bytes fit the listener's queue.
void send_to_all(const group& g, const std::vector<endpoint>& endpoints, int mine, const time_limit& limit) {
  for (int r = 0; r < g.size; ++r) {
    if (r == g.rank) continue;
    const endpoint& to = endpoints[static_cast<std::size_t>(r)];
    std::string why = "nobody listens there; processes must share the network namespace";
    try {
      const file_descriptor connection = connect_to(name_of(to), limit);
      const std::uint64_t note = to.secret ^ static_cast<std::uint64_t>(g.rank);
      if (connection && send_descriptor(connection, mine, note, limit) == io::done) continue;
    } catch (const transport_error& e) {
      why = e.what();
    }
    throw transport_error{fmt::format("rank {} could not hand a memory handle to rank {} (process {}): {}",
                                      g.rank, r, to.pid, why)};
  }
}

std::vector<int> missing_of(const group& g, const std::vector<file_descriptor>& received) {
  std::vector<int> missing;
  for (int r = 0; r < g.size; ++r)
    if (r != g.rank && !received[static_cast<std::size_t>(r)]) missing.push_back(r);
  return missing;
}

std::vector<file_descriptor> receive_from_all(const group& g, const file_descriptor& listener,
                                              const endpoint& own, const time_limit& limit) {
  std::vector<file_descriptor> received(static_cast<std::size_t>(g.size));
  incoming_connections incoming{listener, g.size};
  for (;;) {
    const std::vector<int> missing = missing_of(g, received);
    if (missing.empty()) return received;
    if (const file_descriptor connection = incoming.next(limit)) {
      std::uint64_t note = 0;
      file_descriptor fd = receive_descriptor_now(connection, note);
      const std::uint64_t rank = note ^ own.secret;
      if (fd && rank < received.size()) received[rank] = std::move(fd);
    } else if (limit.passed()) {
      throw transport_error{fmt::format("rank {} waited {} ms for the memory handle of {}", g.rank,
                                        limit.waited().count(), rank_list(missing))};
    }
  }
}

}  // namespace

std::vector<file_descriptor> exchange_descriptors(const group& g, int mine) {
  endpoint own;
  file_descriptor listener;
  together(g, [&] {
    own = {::getpid(), random_bits(), random_bits()};
    listener = listen_at(name_of(own), g.size + strangers);
  });
  const std::vector<endpoint> endpoints = gather(g, own);
  std::vector<file_descriptor> received;
  const time_limit limit{g.deadline};
  // Nobody waits for what another could not send.
  together(g, [&] { send_to_all(g, endpoints, mine, limit); });
  // Also the barrier that keeps every listener open until all have received.
  together(g, [&] { received = receive_from_all(g, listener, own, limit); });
  return received;
}

}  // namespace baton::bootstrap
