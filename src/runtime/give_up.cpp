#include "baton/give_up.hpp"

#include <algorithm>
#include <atomic>
#include <memory>

#include "bootstrap/time_limit.hpp"
#include "runtime/on_cuda.hpp"
#include "runtime/world_state.hpp"

namespace baton {
namespace {

/// The longest of the waits that are not over; null: there is none.
const stuck_record* longest_wait(const wait_log& log) {
  const stuck_record* longest = nullptr;
  for (const wait_log::row& row : log.rows) {
    for (const stuck_record& wait : row.waiting)
      if (wait.complete != 0 && (longest == nullptr || wait.waited_ns > longest->waited_ns)) longest = &wait;
  }
  return longest;
}

/// What the host throws, unless a kernel has written there already.
void report(stuck_record& to, const stuck_record& wait) {
  if (std::atomic_ref{to.claimed}.exchange(1) != 0) return;
  stuck_record mine = wait;
  mine.claimed = 1;
  mine.complete = 0;
  mine.waited_ns = std::max<std::uint64_t>(mine.waited_ns, 1);  // 0 is a refusal
  to = mine;
  std::atomic_ref{to.complete}.store(1, std::memory_order_release);
}

}  // namespace

bool give_up(const world& rank) {
  detail::world_state& state = rank.state();
  const std::unique_ptr<const wait_log> log = read_wait_log(state);
  const stuck_record* const wait = longest_wait(*log);
  if (wait == nullptr) return false;
  report(*state.reports.record_host, *wait);
  if (state.device == device_kind::cuda)
    on_cuda::fill_now(state.device_index, state.reports.abort_device, 1, sizeof(std::uint32_t));
  else
    std::atomic_ref{*state.reports.abort_device}.store(1, std::memory_order_release);
  return true;
}

void give_up_meetings() {
  ++bootstrap::meetings_given_up;
}

}  // namespace baton
