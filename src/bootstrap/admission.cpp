#include "bootstrap/admission.hpp"

#include <fmt/format.h>

#include <utility>

#include "baton/error.hpp"
#include "bootstrap/incoming_connections.hpp"

namespace baton::bootstrap {
namespace {

/// Ranks of two jobs that nothing tells apart are noticed only when a rank comes twice. So rank 0 listens a moment
/// longer, for those of a job that was started together with this one; unless there cannot be another.
constexpr std::chrono::milliseconds moment_for_doubles{100};

}  // namespace

admission::admission(const rendezvous_config& m) : m_{m}, peers_(static_cast<std::size_t>(m.size)) {}

std::vector<file_descriptor> admission::run(const file_descriptor& listener) try {
  incoming_connections incoming{listener, m_.size};
  const time_limit limit{m_.deadline};
  for (; !missing().empty(); forget_ended()) {
    hear(incoming.next(limit));
    if (limit.passed() && !missing().empty())
      throw transport_error{late_text(m_, limit.waited(), missing(),
                                      fmt::format("to join at the abstract Unix socket '{}'", m_.name))};
  }
  if (m_.job.secret == 0 && !are_all_of_one_starter(processes())) {
    const time_limit moment{moment_for_doubles};
    while (!moment.passed()) hear(incoming.next(moment));
  }
  stop_listening(listener);
  while (file_descriptor last = try_accept(listener)) hear(std::move(last));
  return std::move(peers_);
} catch (const transport_error& e) {
  for (const file_descriptor& peer : peers_)
    if (peer) send_refusal(peer, e.what());
  throw;
}

void admission::hear(file_descriptor connection) {
  hello h;
  h.magic = 0;
  const std::size_t heard = connection ? receive_now(connection, &h, sizeof h) : 0;
  if (heard < sizeof h.magic + sizeof h.version || h.magic != hello_magic) return;  // a stranger
  if (heard < sizeof h || h.version != protocol_version)
    return send_refusal(connection, "rank 0 runs another version of baton: build all ranks from one version");
  if (const std::string why = why_other_job(m_.job, h.job, h.rank); !why.empty())
    return send_refusal(connection, why);
  if (const std::string why = objection_to(h); !why.empty()) {
    peers_.push_back(std::move(connection));  // it shall hear why as well
    throw transport_error{why};
  }
  peers_[static_cast<std::size_t>(h.rank)] = std::move(connection);
}

std::string admission::objection_to(const hello& h) const {
  if (h.size != m_.size)
    return fmt::format("ranks disagree: rank {} was started with WORLD_SIZE={}, rank 0 with WORLD_SIZE={}",
                       h.rank, h.size, m_.size);
  if (h.rank < 0 || h.rank >= m_.size)
    return fmt::format(
        "a process came as rank {}, expected 1 to {}: RANK must be unique, 0 to WORLD_SIZE - 1", h.rank,
        m_.size - 1);
  if (h.rank == 0 || peers_[static_cast<std::size_t>(h.rank)])
    return fmt::format(
        "two processes came as rank {}: RANK must be unique within a job, and two jobs on one machine need "
        "different MASTER_PORTs, or each a BATON_JOB of its own",
        h.rank);
  return {};
}

/// A rank that died before all were there leaves its place to the next who comes as that rank.
void admission::forget_ended() {
  for (file_descriptor& peer : peers_)
    if (peer && has_ended(peer)) peer = {};
}

std::vector<int> admission::missing() const {
  std::vector<int> ranks;
  for (int r = 1; r < m_.size; ++r)
    if (!peers_[static_cast<std::size_t>(r)]) ranks.push_back(r);
  return ranks;
}

/// Of the ranks that have come.
std::vector<std::int64_t> admission::processes() const {
  std::vector<std::int64_t> all;
  for (const file_descriptor& peer : peers_)
    if (peer) all.push_back(process_at(peer));
  return all;
}

}  // namespace baton::bootstrap
