#include "api/whole_lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "baton/error.hpp"
#include "baton/line_trial.hpp"
#include "bootstrap/group.hpp"
#include "kernels/torn_lines/launch.hpp"
#include "runtime/on_cuda.hpp"
#include "runtime/world_state.hpp"

namespace baton {
namespace {

/// What tore between GPUs, by the size of p2p groups and their uuids in the order of ranks; "": nothing.
class trials_of_lines {
 public:
  std::optional<std::string> outcome(const std::string& gpus) {
    const std::lock_guard lock{mutex_};
    const auto found = outcomes_.find(gpus);
    return found == outcomes_.end() ? std::nullopt : std::optional{found->second};
  }
  void remember(const std::string& gpus, const std::string& what_tore) {
    const std::lock_guard lock{mutex_};
    outcomes_[gpus] = what_tore;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> outcomes_;
};

trials_of_lines& trials() {
  static trials_of_lines of_process;
  return of_process;
}

}  // namespace

line_trial try_lines(const world& w) {
  line_trial trial;
  if (w.device() == device_kind::cpu) return trial;
  const std::vector<torn_lines::found> of_ranks = torn_lines::look(w, 0);
  for (const torn_lines::found& f : of_ranks) {
    trial.looked_at += f.lines;
    trial.seen_changing += f.moving;
  }
  trial.torn = torn_lines::what_tore(of_ranks);
  return trial;
}

void require_whole_lines(const world& w, int p2p_group_size) {
  if (w.device() == device_kind::cpu) return;
  const bootstrap::group all = w.state().peers();
  on_cuda::device_identity own;
  bootstrap::together(all, [&] { own = on_cuda::identify(w.device_index()); });
  std::string gpus = fmt::format("{} ", p2p_group_size);
  for (const on_cuda::device_identity& gpu : bootstrap::gather(all, own))
    gpus.append(gpu.uuid, gpu.uuid + sizeof gpu.uuid);
  const std::optional<std::string> known = trials().outcome(gpus);
  // Processes may have met others before: all know, or all look again.
  const std::vector<char> who_knows = bootstrap::gather(all, static_cast<char>(known ? 1 : 0));
  const bool all_know =
      std::all_of(who_knows.begin(), who_knows.end(), [](char knows) { return knows != 0; });
  std::string torn = all_know ? *known : torn_lines::what_tore(torn_lines::look(w, p2p_group_size));
  if (!all_know) trials().remember(gpus, torn);
  const std::vector<char> who_saw = bootstrap::gather(all, static_cast<char>(torn.empty() ? 0 : 1));
  const auto saw = std::find(who_saw.begin(), who_saw.end(), 1);
  if (torn.empty() && saw != who_saw.end()) torn = fmt::format("rank {} has seen it", saw - who_saw.begin());
  if (!torn.empty())
    throw unsupported{fmt::format(
        "layout per_rank: lines of 128 bytes, which it assumes to arrive whole between these GPUs, "
        "do not: {}. Use transfer flags, which does without them, or layout per_expert",
        torn)};
}

}  // namespace baton
