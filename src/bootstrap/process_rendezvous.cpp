#include "bootstrap/process_rendezvous.hpp"

#include <fmt/format.h>

#include <cstring>

#include "baton/error.hpp"
#include "bootstrap/rank_list.hpp"

namespace baton::bootstrap {

process_rendezvous::process_rendezvous(const rendezvous_config& m)
    : m_{m}, shaken_{m.rank == 0 ? await_ranks(m) : join_rank_0(m)} {}

void process_rendezvous::all_gather(const void* mine, void* all, std::size_t bytes) {
  if (!broken_.empty()) throw transport_error{broken_};
  if (::getpid() != process_)  // both would speak over the same connections
    throw transport_error{fmt::format(
        "process {} was forked from process {}, which is rank {}, and is no rank itself: create the "
        "world after the fork",
        ::getpid(), process_, m_.rank)};
  ++rounds_;
  try {
    if (m_.rank == 0)
      collect(mine, static_cast<std::byte*>(all), bytes);
    else
      ask(mine, all, bytes);
  } catch (const transport_error& e) {
    if (!broken_.empty()) throw;
    if (m_.rank == 0) fail_all(e.what());
    fail(e.what());
  }
}

void process_rendezvous::collect(const void* mine, std::byte* all, std::size_t bytes) {
  const time_limit limit{m_.deadline};
  std::vector<int> late, gone;
  if (bytes > 0) std::memcpy(all, mine, bytes);
  for (int r = 1; r < m_.size; ++r) {
    request asked;
    io got = receive_all(peer(r), &asked, sizeof asked, limit);
    if (got == io::done && (asked.bytes != bytes || asked.round != rounds_ || asked.token != shaken_.token))
      fail_all(fmt::format(
          "ranks disagree in a collective call: rank {} brings {} bytes as its call {}, rank 0 {} bytes "
          "as its call {}; all ranks must make the same calls in the same order",
          r, asked.bytes, asked.round, bytes, rounds_));
    if (got == io::done) got = receive_all(peer(r), all + static_cast<std::size_t>(r) * bytes, bytes, limit);
    if (got == io::late) late.push_back(r);
    if (got == io::closed) gone.push_back(r);
  }
  if (!gone.empty())
    fail_all(fmt::format("{} left: the process ended or destroyed its world", rank_list(gone)));
  if (!late.empty()) fail_all(late_text(m_, limit.waited(), late, "to join a collective call"));
  const answer granted{verdict::granted, 0, shaken_.token};
  // A rank that cannot be reached any more is named by the next call.
  for (int r = 1; r < m_.size; ++r)
    if (send_all(peer(r), &granted, sizeof granted, limit) == io::done)
      send_all(peer(r), all, bytes * static_cast<std::size_t>(m_.size), limit);
}

void process_rendezvous::ask(const void* mine, void* all, std::size_t bytes) {
  const time_limit limit{m_.deadline};
  const request asked{shaken_.token, rounds_, bytes};
  // If rank 0 has failed the meeting meanwhile, its reason waits to be read.
  if (send_all(peer(0), &asked, sizeof asked, limit) == io::done) send_all(peer(0), mine, bytes, limit);
  const time_limit longer{with_grace(m_.deadline)};
  const received_answer got = receive_answer(peer(0), longer);
  if (got.how == io::done && got.what == verdict::refused) fail(got.reason);
  io how = got.how;
  if (how == io::done) how = receive_all(peer(0), all, bytes * static_cast<std::size_t>(m_.size), longer);
  if (how == io::late) fail(late_text(m_, longer.waited(), {0}, "to answer a collective call"));
  if (how == io::closed) fail("rank 0 left: the process ended or destroyed its world");
}

void process_rendezvous::fail(const std::string& why) {
  broken_ = why;
  throw transport_error{why};
}

void process_rendezvous::fail_all(const std::string& why) {
  for (const file_descriptor& to : shaken_.peers)
    if (to) send_refusal(to, why);
  fail(why);
}

}  // namespace baton::bootstrap
