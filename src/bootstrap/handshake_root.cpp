#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "baton/error.hpp"
#include "bootstrap/admission.hpp"
#include "bootstrap/handshake.hpp"

namespace baton::bootstrap {
namespace {

using std::chrono::milliseconds;

/// If the holder of the name still listens, then two jobs meet here right now: it hears of it, and we hear why not.
void ask_holder(const rendezvous_config& m) {
  const file_descriptor holder = try_connect(m.name);
  if (!holder) return;
  const time_limit limit{milliseconds{1000}};
  hello h;
  h.size = m.size;
  h.job = m.job;
  if (send_all(holder, &h, sizeof h, limit) != io::done) return;
  const received_answer got = receive_answer(holder, limit);
  if (got.how == io::done && got.what == verdict::refused) throw transport_error{got.reason};
}

std::shared_ptr<name_claim> claim_soon(const rendezvous_config& m) {
  const time_limit limit{time_to_leave(m.deadline)};
  for (;;) {
    if (auto claim = name_claim::try_take(m.name)) return claim;
    ask_holder(m);
    if (limit.passed())
      throw transport_error{fmt::format(
          "rank 0 cannot meet its ranks at the abstract Unix socket '{}': another job of this machine "
          "uses the name; give each job a MASTER_PORT of its own",
          m.name)};
    std::this_thread::sleep_for(milliseconds{20});
  }
}

file_descriptor listen_soon(const rendezvous_config& m) {
  const time_limit limit{time_to_leave(m.deadline)};
  constexpr int strangers = 64;
  while (!limit.passed()) {
    if (file_descriptor listener = try_listen(m.name, m.size + strangers)) return listener;
    std::this_thread::sleep_for(milliseconds{20});
  }
  return listen_at(m.name, m.size + strangers);
}

}  // namespace

milliseconds time_to_leave(milliseconds deadline) {
  constexpr milliseconds longest{2000};
  return deadline.count() == 0 ? longest : std::min(deadline, longest);
}

handshake await_ranks(const rendezvous_config& m) {
  handshake done;
  done.token = random_bits();
  done.claim = claim_soon(m);
  done.peers = admission{m}.run(listen_soon(m));
  const answer welcome{verdict::granted, 0, done.token};
  const time_limit limit{m.deadline};
  // A rank that cannot be reached any more is named by the first call.
  for (int r = 1; r < m.size; ++r)
    send_all(done.peers[static_cast<std::size_t>(r)], &welcome, sizeof welcome, limit);
  return done;
}

}  // namespace baton::bootstrap
