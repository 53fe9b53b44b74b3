#include "bootstrap/process_rendezvous.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>

#include "baton/error.hpp"
#include "bootstrap/rank_list.hpp"
#include "bootstrap/unix_socket.hpp"

namespace baton::bootstrap {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t hello_magic = 0x6261746f6e000001;  // "baton", version 1 of this protocol

struct hello {
  std::uint64_t magic = hello_magic;
  std::int32_t rank = 0;
  std::int32_t size = 0;
};
struct request {
  std::uint64_t round = 0;
  std::uint64_t bytes = 0;
};
struct answer {
  std::uint64_t text_bytes = 0;
};

/// Clients give rank 0 this much longer than it gives them, so that its verdict arrives before they give up.
milliseconds with_grace(milliseconds deadline) {
  if (deadline.count() == 0) return deadline;
  return deadline + std::clamp(deadline / 4, milliseconds{100}, milliseconds{2000});
}

/// A name of a job that is just being restarted may be held for a moment by the rank 0 that is going away.
file_descriptor listen_soon(const std::string& place, int backlog, milliseconds deadline) {
  const time_limit limit{deadline.count() == 0 ? milliseconds{2000} : std::min(deadline, milliseconds{2000})};
  for (;;) try {
      return listen_at(place, backlog);
    } catch (const transport_error&) {
      if (limit.passed()) throw;
      std::this_thread::sleep_for(milliseconds{20});
    }
}

}  // namespace

process_rendezvous::process_rendezvous(const std::string& place, int rank, int size, milliseconds deadline)
    : rank_{rank}, size_{size}, deadline_{deadline} {
  if (rank == 0)
    serve(place);
  else
    join(place);
}

void process_rendezvous::serve(const std::string& place) {
  peers_.resize(static_cast<std::size_t>(size_));
  file_descriptor listener = listen_soon(place, size_, deadline_);
  const time_limit limit{deadline_};
  while (!absent().empty()) {
    std::optional<file_descriptor> guest = accept_from(listener, limit);
    if (!guest) fail_all(late_text(absent(), fmt::format("to join at the abstract Unix socket '{}'", place)));
    admit(std::move(*guest), limit);
  }
  listener = file_descriptor{};  // before anybody may go on to meet here a second time
  const answer welcome;
  for (int r = 1; r < size_; ++r)
    send_all(peers_[static_cast<std::size_t>(r)], &welcome, sizeof welcome, limit);
}

void process_rendezvous::admit(file_descriptor guest, const time_limit& limit) {
  hello h;
  if (receive_all(guest, &h, sizeof h, limit) != io::done) return;  // a process that died or is no rank
  const std::string objection = objection_to(h.magic, h.rank, h.size);
  if (!objection.empty()) {
    peers_.push_back(std::move(guest));  // it shall hear why as well
    fail_all(objection);
  }
  peers_[static_cast<std::size_t>(h.rank)] = std::move(guest);
}

std::string process_rendezvous::objection_to(std::uint64_t magic, int rank, int size) const {
  if (magic != hello_magic)
    return "a process with another version of baton came to this meeting: build all ranks from one version";
  if (size != size_)
    return fmt::format("ranks disagree: rank {} was started with WORLD_SIZE={}, rank 0 with WORLD_SIZE={}",
                       rank, size, size_);
  if (rank < 1 || rank >= size_)
    return fmt::format(
        "a process came as rank {}, expected 1 to {}: RANK must be unique, 0 to WORLD_SIZE - 1", rank,
        size_ - 1);
  if (peers_[static_cast<std::size_t>(rank)])
    return fmt::format("two processes came as rank {}: RANK must be unique", rank);
  return {};
}

void process_rendezvous::join(const std::string& place) {
  const time_limit limit{deadline_};
  std::optional<file_descriptor> root = connect_to(place, limit);
  if (!root)
    fail(
        late_text({0}, fmt::format("to listen at the abstract Unix socket '{}' (ranks must share the network "
                                   "namespace, MASTER_PORT and TORCHELASTIC_RUN_ID)",
                                   place)));
  peers_.push_back(std::move(*root));
  const hello h{hello_magic, rank_, size_};
  send_all(peers_[0], &h, sizeof h, limit);
  take_answer(nullptr, 0);
}

void process_rendezvous::all_gather(const void* mine, void* all, std::size_t bytes) {
  if (!broken_.empty()) throw transport_error{broken_};
  ++rounds_;
  if (rank_ == 0)
    collect(mine, static_cast<std::byte*>(all), bytes);
  else
    ask(mine, all, bytes);
}

void process_rendezvous::collect(const void* mine, std::byte* all, std::size_t bytes) {
  const time_limit limit{deadline_};
  std::vector<int> late, gone;
  if (bytes > 0) std::memcpy(all, mine, bytes);
  for (int r = 1; r < size_; ++r) {
    const file_descriptor& peer = peers_[static_cast<std::size_t>(r)];
    request asked;
    io got = receive_all(peer, &asked, sizeof asked, limit);
    if (got == io::done && (asked.bytes != bytes || asked.round != rounds_))
      fail_all(fmt::format(
          "ranks disagree in a collective call: rank {} brings {} bytes as its call {}, rank 0 {} bytes "
          "as its call {}; all ranks must make the same calls in the same order",
          r, asked.bytes, asked.round, bytes, rounds_));
    if (got == io::done) got = receive_all(peer, all + static_cast<std::size_t>(r) * bytes, bytes, limit);
    if (got == io::late) late.push_back(r);
    if (got == io::closed) gone.push_back(r);
  }
  if (!gone.empty())
    fail_all(fmt::format("{} left: the process ended or destroyed its world", rank_list(gone)));
  if (!late.empty()) fail_all(late_text(late, "to join a collective call"));
  const answer verdict;
  for (int r = 1; r < size_; ++r) {
    const file_descriptor& peer = peers_[static_cast<std::size_t>(r)];
    // A rank that cannot be reached any more is named by the next call.
    if (send_all(peer, &verdict, sizeof verdict, limit) == io::done)
      send_all(peer, all, bytes * static_cast<std::size_t>(size_), limit);
  }
}

void process_rendezvous::ask(const void* mine, void* all, std::size_t bytes) {
  const time_limit limit{deadline_};
  const request asked{rounds_, bytes};
  // If rank 0 has failed the meeting meanwhile, its reason waits to be read.
  if (send_all(peers_[0], &asked, sizeof asked, limit) == io::done) send_all(peers_[0], mine, bytes, limit);
  take_answer(all, bytes * static_cast<std::size_t>(size_));
}

void process_rendezvous::take_answer(void* payload, std::size_t bytes) {
  const time_limit limit{with_grace(deadline_)};
  answer verdict;
  io got = receive_all(peers_[0], &verdict, sizeof verdict, limit);
  if (got == io::done && verdict.text_bytes > 0) {
    std::string why(std::min<std::uint64_t>(verdict.text_bytes, 4096), ' ');
    if (receive_all(peers_[0], why.data(), why.size(), limit) == io::done) fail(why);
  }
  if (got == io::done) got = receive_all(peers_[0], payload, bytes, limit);
  if (got == io::late) fail(late_text({0}, "to answer a collective call"));
  if (got == io::closed) fail("rank 0 left: the process ended or destroyed its world");
}

void process_rendezvous::fail(const std::string& why) {
  broken_ = why;
  throw transport_error{why};
}

void process_rendezvous::fail_all(const std::string& why) {
  const answer verdict{why.size()};
  const time_limit limit{milliseconds{1000}};
  for (const file_descriptor& peer : peers_)
    if (peer && send_all(peer, &verdict, sizeof verdict, limit) == io::done)
      send_all(peer, why.data(), why.size(), limit);
  fail(why);
}

std::string process_rendezvous::late_text(const std::vector<int>& missing, const std::string& what) const {
  return fmt::format(
      "rank {} of {} waited {} ms for {} {}. They have not started, have died, or are late; raise "
      "BATON_DEADLINE_MS if they may be this late",
      rank_, size_, deadline_.count(), rank_list(missing), what);
}

std::vector<int> process_rendezvous::absent() const {
  std::vector<int> missing;
  for (int r = 1; r < size_; ++r)
    if (!peers_[static_cast<std::size_t>(r)]) missing.push_back(r);
  return missing;
}

}  // namespace baton::bootstrap
