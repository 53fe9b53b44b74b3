#pragma once
// One rank's end of a communicator: where its memory and its peers' windows are, and hence what each kernel is given.
// Pure arithmetic on addresses: the library fills it on both devices, the checker with memory of its model.
#include "kernels/ep/per_expert/params.hpp"
#include "kernels/ep/token_format.hpp"

namespace baton::ep {

/// What a rank sends in one round.
struct round_input {
  const void* tokens = nullptr;  // [num_tokens, H]: bf16, or in the format
  topk_ids topk_idx{};           // [num_tokens, K]
  int num_tokens = 0;
  tensor_scales input_scales{};
  expert_map replicas{};
};

struct endpoint {
  shape s;
  all_ranks_array<std::byte> windows;   // window_layout, of each rank, as this rank addresses it
  std::byte* local = nullptr;           // local_layout
  int warps = 1;                        // of each kernel
  int p2p_group_size = max_near_ranks;  // whom stores reach; fewer than all: for the window peer_puts

  template <class T>
  T* own(std::size_t local_layout::*offset) const {
    return reinterpret_cast<T*>(local + local_layout{s}.*offset);
  }
  template <class T>
  T* of_rank(int rank, std::size_t window_layout::*offset) const {
    return reinterpret_cast<T*>(windows.at[rank] + window_layout{s}.*offset);
  }
  bool goes_beyond_group() const { return p2p_group_size < s.num_ranks; }
  p2p_group near() const { return p2p_group::of(s.rank, p2p_group_size, s.num_ranks); }
  /// Messages of `bytes` for a part of the windows, and where they wait to be put.
  template <class Window>
  typename Window::messages messages(std::size_t window_layout::*offset, std::size_t send_layout::*send,
                                     int bytes) const {
    typename Window::messages all{};
    for (int rank = 0; rank < s.num_ranks; ++rank) all.of_rank[rank] = of_rank<std::byte>(rank, offset);
    if constexpr (Window::goes_by_put) {
      all.send_buffer = windows.at[s.rank] + send_layout{s}.*send;
      all.bytes = bytes;
      all.near = near();
    }
    return all;
  }
  template <class Window>
  typename Window::words words(std::size_t window_layout::*offset) const {
    typename Window::words all{};
    for (int rank = 0; rank < s.num_ranks; ++rank) all.of_rank[rank] = of_rank<std::uint64_t>(rank, offset);
    if constexpr (Window::goes_by_put) all.near = near();
    return all;
  }
  ep_local_sync_counters counters() const {
    return {own<std::int32_t>(&local_layout::counters), s.num_pairs()};
  }
  round_counters* rounds() const { return own<round_counters>(&local_layout::rounds); }
  device_errors* errors() const { return own<device_errors>(&local_layout::errors); }
  received_tokens received() const { return received_at(local, local_layout{s}, s); }

  template <class Window = peer_stores>
  dispatch_async_params<tensor_scales, Window> dispatch_async(const round_input& in) const {
    dispatch_async_params<tensor_scales, Window> p{};
    p.s = s;
    p.tokens = in.tokens;
    p.topk_idx = {in.topk_idx, in.replicas, divider{s.top_k}, s.num_experts, s.rank};
    p.num_tokens = in.num_tokens;
    p.units = units_for(steps_of(s), in.num_tokens, warps);
    if constexpr (Window::goes_by_put) p.units.per_row = 1;  // who puts a message has written all of it
    p.input_scales = in.input_scales;
    p.receive = messages<Window>(&window_layout::dispatch_buffer, &send_layout::dispatch, s.message_bytes());
    p.count = words<Window>(&window_layout::dispatch_count);
    p.counters = counters();
    p.send_slots = own<std::int32_t>(&local_layout::send_slots);
    p.sent_counts = own<std::int32_t>(&local_layout::sent_counts);
    p.rounds = rounds();
    p.errors = errors();
    return p;
  }

  dispatch_wait_params dispatch_wait(const row_reports& reports = {}) const {
    dispatch_wait_params p{};
    p.s = s;
    p.receive = of_rank<std::byte>(s.rank, &window_layout::dispatch_buffer);
    p.count = of_rank<std::uint64_t>(s.rank, &window_layout::dispatch_count);
    p.counters = counters();
    p.rounds = rounds();
    p.tokens = own<std::byte>(&local_layout::tokens);
    p.scales = own<std::byte>(&local_layout::scales);
    p.row_offsets = own<std::int32_t>(&local_layout::row_offsets);
    p.row_counts = own<std::int32_t>(&local_layout::row_counts);
    p.expert_ids = own<std::int32_t>(&local_layout::expert_ids);
    p.reports = reports;
    p.sources = own<source_info>(&local_layout::sources);
    return p;
  }

  template <class Window = peer_stores>
  combine_async_params<Window> combine_async(const bfloat16* expert_output) const {
    combine_async_params<Window> p{};
    p.s = s;
    p.expert_output = expert_output;
    p.sources = own<source_info>(&local_layout::sources);
    p.reply = messages<Window>(&window_layout::combine_buffer, &send_layout::combine, s.combine_bytes());
    p.count = words<Window>(&window_layout::combine_count);
    p.counters = counters();
    p.rounds = rounds();
    return p;
  }

  /// `num_tokens`: those of the round's dispatch_async.
  template <class Output>
  combine_wait_params<Output> combine_wait(int num_tokens, const float* topk_weights, const Output& output,
                                           const bfloat16* shared_output = nullptr) const {
    combine_wait_params<Output> p{};
    p.s = s;
    p.num_tokens = num_tokens;
    p.units = units_for(reply_steps_of(s), num_tokens, warps);
    p.reply = of_rank<std::byte>(s.rank, &window_layout::combine_buffer);
    p.count = of_rank<std::uint64_t>(s.rank, &window_layout::combine_count);
    p.counters = counters();
    p.rounds = rounds();
    p.send_slots = own<std::int32_t>(&local_layout::send_slots);
    p.sent_counts = own<std::int32_t>(&local_layout::sent_counts);
    p.router_weights = {topk_weights, s.top_k};
    p.output = output;
    p.shared = {shared_output};
    return p;
  }
};

}  // namespace baton::ep
