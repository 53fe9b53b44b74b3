#include "bootstrap/frames.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "baton/error.hpp"
#include "bootstrap/rank_list.hpp"

namespace baton::bootstrap {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t longest_reason = 4096;

}  // namespace

void send_refusal(const file_descriptor& to, const std::string& why) try {
  std::string bytes(sizeof(answer), '\0');
  const std::string reason = why.substr(0, longest_reason);
  const answer refused{verdict::refused, static_cast<std::uint32_t>(reason.size()), 0};
  std::copy_n(reinterpret_cast<const char*>(&refused), sizeof refused, bytes.data());
  bytes += reason;
  send_all(to, bytes.data(), bytes.size(), time_limit{milliseconds{1000}});
} catch (const transport_error&) {
  // It cannot be told; it will notice that the connection is gone.
}

received_answer receive_answer(const file_descriptor& from, const time_limit& limit) {
  answer head;
  received_answer got;
  got.how = receive_all(from, &head, sizeof head, limit);
  if (got.how != io::done) return got;
  got.what = head.what;
  got.token = head.token;
  const bool makes_sense = head.what == verdict::granted
                               ? head.reason_bytes == 0
                               : head.what == verdict::refused && head.reason_bytes <= longest_reason;
  if (!makes_sense) return {};
  got.reason.resize(head.reason_bytes);
  got.how = receive_all(from, got.reason.data(), got.reason.size(), limit);
  return got;
}

milliseconds with_grace(milliseconds deadline) {
  if (deadline.count() == 0) return deadline;
  const milliseconds bounded = std::min(deadline, longest_deadline);
  return bounded + std::clamp(bounded / 4, milliseconds{100}, milliseconds{2000});
}

std::string late_text(const rendezvous_config& m, milliseconds waited, const std::vector<int>& missing,
                      const std::string& what) {
  if (m.deadline.count() > 0) waited = std::min(waited, m.deadline);  // without grace
  return fmt::format(
      "rank {} of {} waited {} ms for {} {}. They have not started, have died, or are late; raise "
      "BATON_DEADLINE_MS if they may be this late",
      m.rank, m.size, waited.count(), rank_list(missing), what);
}

}  // namespace baton::bootstrap
