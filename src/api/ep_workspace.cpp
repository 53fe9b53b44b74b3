#include "api/ep_workspace.hpp"

#include <algorithm>

#include "api/ep_layout.hpp"
#include "baton/device_buffer.hpp"
#include "bootstrap/group.hpp"
#include "protocol/membership.hpp"
#include "runtime/nvshmem.hpp"
#include "runtime/world_state.hpp"

namespace baton {
namespace {

constexpr const char* knob = "lower num_max_tokens_per_rank, top_k or num_slots";

}  // namespace

ep_workspace::ep_workspace(const world& w, const ep_config& config)
    : ranks_{w}, config_{config}, bytes_{workspace_bytes(config, w.size())} {
  require_memory();
  bootstrap::together(w.state().peers(), [&] {
    local_ = make_private_memory(w, bytes_.local, "expert_parallel's received tokens", knob);
  });
  const char* purpose = "expert_parallel's receive window";
  const bool on_network = w.device() == device_kind::cuda && goes_beyond_group(config, w.size());
  window_ = on_network ? make_window_beyond(w, bytes_.window, config.p2p_group_size, purpose, knob)
                       : make_window(w, bytes_.window, purpose, knob);
}

void ep_workspace::require_memory() const {
  require_memory_of_all(ranks_, bytes_.total(), "expert_parallel", knob);
}

std::byte* ep_workspace::local_of(int slot) const {
  return local_->peer(0) + bytes_before(config_, ranks_.size(), slot).local;
}

ep::all_ranks_array<std::byte> ep_workspace::windows_of(int slot) const {
  const std::size_t before = bytes_before(config_, ranks_.size(), slot).window;
  ep::all_ranks_array<std::byte> windows{};
  for (int r = 0; r < ranks_.size(); ++r) windows.at[r] = window_->peer(r) + before;
  return windows;
}

ep::all_ranks_array<std::uint64_t> ep_workspace::words_of_ranks() const {
  const std::size_t before = bytes_before(config_, ranks_.size(), config_.num_slots).window;
  ep::all_ranks_array<std::uint64_t> words{};
  for (int r = 0; r < ranks_.size(); ++r)
    words.at[r] = reinterpret_cast<std::uint64_t*>(window_->peer(r) + before);
  return words;
}

loss_words ep_workspace::words_of_loss() const {
  const auto near = p2p_group::of(ranks_.rank(), config_.p2p_group_size, ranks_.size());
  loss_words l{{{}, near}, ranks_.rank(), ranks_.size()};
  const ep::all_ranks_array<std::uint64_t> words = words_of_ranks();
  std::copy_n(words.at, ranks_.size(), l.of_ranks.of_rank);
  return l;
}

std::uint64_t* ep_workspace::told() const {
  return reinterpret_cast<std::uint64_t*>(local_of(config_.num_slots));
}

void ep_workspace::clear() const {
  const workspace_size slots = bytes_before(config_, ranks_.size(), config_.num_slots);
  fill_async(ranks_, window_->peer(ranks_.rank()), 0, slots.window, {});
  fill_async(ranks_, local_->peer(0), 0, slots.local, {});
}

void ep_workspace::release() {
  released_ = true;  // whatever comes now: what is gone is gone
  bootstrap::together(ranks_.state().peers(), [&] { local_->release(); });
  window_->release();
}

void ep_workspace::reacquire() {
  require_memory();
  try {
    bootstrap::together(ranks_.state().peers(), [&] { local_->reacquire(); });
    window_->reacquire();
  } catch (...) {
    drop();
    throw;
  }
  released_ = false;
}

void ep_workspace::drop() noexcept {
  released_ = true;
  local_->drop();
  window_->drop();
}

}  // namespace baton
