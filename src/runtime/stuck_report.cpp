#include "runtime/stuck_report.hpp"

#include <fmt/format.h>

#include <atomic>

#include "exec/site_name.hpp"
#include "runtime/on_cuda.hpp"

namespace baton {
namespace {

std::string duration_text(std::uint64_t ns) {
  const double s = static_cast<double>(ns) * 1e-9;
  return s >= 1.0 ? fmt::format("{:.1f} s", s) : fmt::format("{:.1f} ms", s * 1e3);
}

std::string round_text(const stuck_record& record) {
  return record.slot >= 0 ? fmt::format("round {} of slot {}", record.epoch, record.slot)
                          : fmt::format("round {}", record.epoch);
}

/// Why the awaited side has not acted.
const char* cause(const stuck_record& record) {
  return record.peer >= 0 ? "it never got that far in its round, died, or runs a different configuration"
                          : "the block that leads this kernel did not get that far: it waits itself, or the "
                            "grid does not fit the "
                            "SMs beside what else runs there (lower num_sms)";
}

std::string refusal_text(const stuck_record& record) {
  const std::string from = record.peer >= 0 ? fmt::format("from rank {}, ", record.peer) : std::string{};
  const char* const cause =
      record.peer >= 0 ? "Memory of the communicator was overwritten, or that rank runs something else"
                       : "Its scratch was not zero at first, was overwritten, or two calls use it at once";
  return fmt::format(
      "rank {} refused what it found at {}, {}{}: expected {:#x}, saw {:#x} (block {}, warp {}). {}.",
      record.rank, name(record.where), from, round_text(record), record.expected, record.seen, record.block,
      record.warp, cause);
}

}  // namespace

std::string stuck_text(const stuck_record& record) {
  if (record.waited_ns == 0) return refusal_text(record);
  std::string whom =
      record.peer >= 0 ? fmt::format("rank {}", record.peer) : std::string{"another block of its own"};
  if (const int last = culprit(record); last != record.peer)
    whom += fmt::format(", which waited in turn, at last for rank {}", last);
  return fmt::format(
      "rank {} waited {} at {} for {}, {}: expected {:#x}, saw {:#x} (block {}, warp {}, lane {}); {}. "
      "Raise "
      "BATON_DEADLINE_MS if peers may be this late.",
      record.rank, duration_text(record.waited_ns), name(record.where), whom, round_text(record),
      record.expected, record.seen, record.block, record.warp, record.lane, cause(record));
}

bool is_all_done_since(const detail::world_state& state, const detail::lost_work& then) {
  stuck_record* const shared = state.reports.record_host;
  const bool is_stuck =
      shared != nullptr && std::atomic_ref{shared->complete}.load(std::memory_order_acquire) != 0;
  return !is_stuck && state.lost() == then;
}

std::string way_on(bool has_members, bool by_nvshmem) {
  std::string text = "Destroy it and create one anew, on every rank";
  if (has_members) text += "; or call set_members on the ranks that go on";
  if (by_nvshmem)
    text +=
        ", if the processes of all live; if one has ended, start all of them anew: NVSHMEM has one set of "
        "processes, for their lives";
  return text;
}

void throw_if_stuck(detail::world_state& state) {
  stuck_record* const shared = state.reports.record_host;
  if (shared == nullptr) return;
  if (std::atomic_ref{shared->complete}.load(std::memory_order_acquire) == 0) return;
  state.asked_when_stuck.ask();
  const stuck_record found = *shared;
  *shared = {};
  ++state.times_lost;
  if (state.device == device_kind::cuda)
    on_cuda::clear_abort(state);
  else
    std::atomic_ref{*state.reports.abort_device}.store(0, std::memory_order_release);
  stuck::details d;
  d.rank = found.rank;
  d.peer = culprit(found);
  d.block = static_cast<int>(found.block);
  d.site = name(found.where);
  d.slot = found.slot;
  d.epoch = found.epoch;
  d.expected = found.expected;
  d.seen = found.seen;
  d.waited_ns = found.waited_ns;
  throw stuck{stuck_text(found), d};
}

}  // namespace baton
