#include <fmt/format.h>

#include <mutex>
#include <set>
#include <thread>

#include "baton/error.hpp"
#include "bootstrap/handshake.hpp"

namespace baton::bootstrap {
namespace {

using std::chrono::milliseconds;

/// Names at which this process has met the others: if rank 0 still holds one, the next meeting is to come.
class meetings_held {
 public:
  static meetings_held& all() {
    static meetings_held only;
    return only;
  }
  bool has(const std::string& name) {
    const std::lock_guard lock{mutex_};
    return names_.contains(name);
  }
  void add(const std::string& name) {
    const std::lock_guard lock{mutex_};
    names_.insert(name);
  }

 private:
  std::mutex mutex_;
  std::set<std::string> names_;
};

[[noreturn]] void say_cut_off(const rendezvous_config& m) {
  throw transport_error{
      fmt::format("rank 0 closed the connection while rank {} was joining at the abstract Unix socket '{}'",
                  m.rank, m.name)};
}

/// @param was_cut_off  by a rank 0 that listened at the name: if nobody has the name any more, it has ended
file_descriptor connect_to_root(const rendezvous_config& m, const time_limit& limit, bool was_cut_off) {
  const milliseconds patience = time_to_leave(m.deadline);
  for (attended_time open;;) {
    if (file_descriptor root = try_connect(m.name)) return root;
    const bool claimed = is_claimed(m.name);
    if (was_cut_off && !claimed) say_cut_off(m);
    if (!claimed || meetings_held::all().has(m.name))
      open = attended_time{};
    else if (open.look() > patience || (was_cut_off && limit.passed()))
      throw transport_error{
          fmt::format("rank {} came too late to the abstract Unix socket '{}': the world that met there is "
                      "complete and still "
                      "at work. Another job uses this MASTER_PORT, or this process was started a second time",
                      m.rank, m.name)};
    if (limit.passed())
      throw transport_error{
          late_text(m, limit.waited(), {0},
                    fmt::format("to listen at the abstract Unix socket '{}' (ranks must share the network "
                                "namespace, MASTER_PORT and TORCHELASTIC_RUN_ID)",
                                m.name))};
    std::this_thread::sleep_for(milliseconds{5});
  }
}

received_answer say_hello(const rendezvous_config& m, const file_descriptor& root, const time_limit& limit) {
  hello h;
  h.rank = m.rank;
  h.size = m.size;
  h.job = m.job;
  // If rank 0 has refused everybody meanwhile, its reason waits to be read.
  send_all(root, &h, sizeof h, limit);
  return receive_answer(root, limit);
}

}  // namespace

handshake join_rank_0(const rendezvous_config& m) {
  const time_limit limit{m.deadline};
  for (bool was_cut_off = false;; was_cut_off = true) {
    handshake done;
    done.peers.push_back(connect_to_root(m, limit, was_cut_off));
    const time_limit longer{with_grace(m.deadline)};
    const received_answer got = say_hello(m, done.peers[0], longer);
    if (got.how == io::late)
      throw transport_error{late_text(m, longer.waited(), {0},
                                      fmt::format("to answer at the abstract Unix socket '{}'", m.name))};
    if (got.what == verdict::refused)
      throw transport_error{
          got.how == io::done
              ? got.reason
              : fmt::format("rank 0 refused rank {} and ended before it had said why", m.rank)};
    if (got.how == io::done) {
      meetings_held::all().add(m.name);
      done.token = got.token;
      return done;
    }
    // Cut off before an answer was complete. Rank 0 has gone or is about to, for it gives the name back last; or it
    // had too many connections or stopped listening.
    if (!is_claimed(m.name) || limit.passed()) say_cut_off(m);
    std::this_thread::sleep_for(milliseconds{20});
  }
}

}  // namespace baton::bootstrap
