// What a rank waits for, read beside its kernels; and in words.
#include "api/dump_state.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>

#include "exec/site_name.hpp"
#include "runtime/stuck_report.hpp"
#include "runtime/world_state.hpp"

namespace baton {
namespace {

/// Warps that wait for the same are told of together.
std::vector<wait_in_progress> waits_of(const wait_log& log) {
  std::vector<wait_in_progress> all;
  for (const wait_log::row& row : log.rows) {
    for (const stuck_record& r : row.waiting) {
      if (r.complete == 0) continue;
      const std::string site = name(r.where);
      auto at = std::find_if(all.begin(), all.end(), [&](const wait_in_progress& w) {
        return w.peer == r.peer && w.round == r.epoch && w.site == site;
      });
      if (at == all.end()) at = all.insert(all.end(), {.site = site, .peer = r.peer, .round = r.epoch});
      ++at->warps;
      const auto waited = std::chrono::nanoseconds{r.waited_ns};
      if (at->warps > 1 && waited <= at->waited) continue;
      at->waited = waited;
      at->block = static_cast<int>(r.block);
      at->warp = r.warp;
      at->expected = r.expected;
      at->seen = r.seen;
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.warps > b.warps; });
  return all;
}

double ms(std::chrono::nanoseconds t) {
  return static_cast<double>(t.count()) * 1e-6;
}
double ms(std::uint64_t ns) {
  return static_cast<double>(ns) * 1e-6;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

/// Of the round that the device is in: whose ids or counts are not here.
std::string missing_text(const ep_state& s) {
  std::string missing;
  for (std::size_t r = 0; r < s.heard.size(); ++r)
    if (s.members.has(static_cast<int>(r)) && s.heard[r].dispatch < s.round())
      missing +=
          fmt::format("{}rank {} (last: round {})", missing.empty() ? "" : ", ", r, s.heard[r].dispatch);
  return missing.empty() ? fmt::format("dispatch of round {}: all ranks have been heard", s.round())
                         : fmt::format("dispatch of round {}: not heard of {}", s.round(), missing);
}

/// A line, if some rank is.
std::string absent_text(const ep_state& s) {
  std::string absent;
  for (int r = 0; r < s.num_ranks; ++r)
    if (!s.members.has(r)) absent += fmt::format("{}{}", absent.empty() ? "" : ", ", r);
  return absent.empty() ? ""
                        : fmt::format("  takes no part since epoch {}: rank {}\n", s.members.epoch, absent);
}

}  // namespace

void look_at_waits(const world& ranks, ep_state& state) {
  const detail::world_state& w = ranks.state();
  state.rank = w.rank;
  state.num_ranks = w.size;
  state.waits = waits_of(*read_wait_log(w));
  state.waited = ranks.wait_times();
  std::uint32_t abort = 0;
  read_beside_kernels(w, &abort, w.reports.abort_device, sizeof abort);
  state.has_given_up = abort != 0;
  if (std::atomic_ref{w.reports.record_host->complete}.load(std::memory_order_acquire) != 0)
    state.stuck = stuck_text(*w.reports.record_host);
}

std::string text_of(const ep_config& c, const world& ranks) {
  const ep_transfer transfer = transfer_of(c, ranks.size());
  return fmt::format("layout {} on {}: {} experts, top-{}, hidden {}, {}, up to {} tokens",
                     c.layout == ep_layout::per_expert ? "per_expert"
                     : transfer == ep_transfer::lines  ? "per_rank in lines"
                     : transfer == ep_transfer::flags  ? "per_rank by flags"
                                                       : "per_rank in chunks",
                     ranks.device() == device_kind::cuda ? "CUDA" : "the CPU", c.num_experts, c.top_k,
                     c.hidden, name(c.format), c.num_max_tokens_per_rank);
}

std::string to_text(const ep_state& s) {
  std::string text = fmt::format("rank {} of {}: {}\n", s.rank, s.num_ranks, s.configuration);
  text += fmt::format("  host: {} rounds begun, {} is due\n", s.rounds_called, s.due);
  text += fmt::format("  device: {} rounds dispatched, {} combined{}\n", s.rounds_dispatched,
                      s.rounds_combined, s.has_given_up ? "; HAS GIVEN UP" : "");
  if (!s.stuck.empty()) text += fmt::format("  {}\n", s.stuck);
  text += fmt::format("  {}\n", missing_text(s)) + absent_text(s);
  if (s.waits.empty()) text += "  no warp waits for a peer\n";
  for (const wait_in_progress& w : s.waits)
    text += fmt::format(
        "  {} warp{} wait{} at {} for rank {}, round {}, {:.1f} ms: expected {:#x}, saw {:#x} (block {}, "
        "warp {})\n",
        w.warps, w.warps == 1 ? "" : "s", w.warps == 1 ? "s" : "", w.site, w.peer, w.round, ms(w.waited),
        w.expected, w.seen, w.block, w.warp);
  for (std::size_t p = 0; p < s.waited.peers.size(); ++p)
    if (const peer_wait& w = s.waited.peers[p]; w.waits > 0)
      text += fmt::format("  so far {:.3f} ms in {} waits for rank {}\n", ms(w.ns), w.waits, p);
  return text;
}

std::string to_json(const ep_state& s) {
  std::vector<std::string> heard, waits, waited;
  for (const heard_of_peer& h : s.heard)
    heard.push_back(fmt::format(R"({{"dispatch":{},"combine":{}}})", h.dispatch, h.combine));
  for (const wait_in_progress& w : s.waits)
    waits.push_back(fmt::format(
        R"({{"site":{},"peer":{},"round":{},"warps":{},"waited_ns":{},"block":{},"warp":{},"expected":"{:#x}","seen":"{:#x}"}})",
        quoted(w.site), w.peer, w.round, w.warps, w.waited.count(), w.block, w.warp, w.expected, w.seen));
  for (const peer_wait& w : s.waited.peers)
    waited.push_back(fmt::format(R"({{"ns":{},"waits":{}}})", w.ns, w.waits));
  return fmt::format(
      R"({{"rank":{},"num_ranks":{},"configuration":{},"members":{{"epoch":{},"active_ranks":{}}},)"
      R"("due":{},"rounds_called":{},"rounds_dispatched":{},)"
      R"("rounds_combined":{},"has_given_up":{},"stuck":{},"heard":[{}],"waits":[{}],"waited":[{}],"waited_in_ns":{}}})",
      s.rank, s.num_ranks, quoted(s.configuration), s.members.epoch, s.members.active_ranks, quoted(s.due),
      s.rounds_called, s.rounds_dispatched, s.rounds_combined, s.has_given_up,
      s.stuck.empty() ? "null" : quoted(s.stuck), fmt::join(heard, ","), fmt::join(waits, ","),
      fmt::join(waited, ","), s.waited.span.count());
}

}  // namespace baton
