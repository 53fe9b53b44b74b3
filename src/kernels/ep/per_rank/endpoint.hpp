#pragma once
// One rank's end of a communicator of layout per_rank, as per_expert/endpoint.hpp is of the other.
#include "kernels/ep/late_weights/params.hpp"
#include "kernels/ep/per_rank/params.hpp"

namespace baton::ep::per_rank {

struct round_input {
  const void* tokens = nullptr;         // [num_tokens, H]: bf16, or in the format
  topk_ids topk_idx{};                  // [num_tokens, K]
  const float* topk_weights = nullptr;  // [num_tokens, K] or null
  int num_tokens = 0;
  tensor_scales input_scales{};
  bool tokens_are_given = false;  // in the format
  row_reports reports{};
  expert_map replicas{};
};

struct combine_input {
  const bfloat16* expert_output = nullptr;  // [max_rows, H]
  int num_tokens = 0;                       // of the round's dispatch
  const bfloat16* shared_output = nullptr;  // [num_tokens, H] or null; of a kernel that receives
};

/// Of combine's blocks: warps that send, and how many units one takes at once of what is next of all (0: each has a share).
struct combine_senders {
  int warps = 0, taken_each = 0;
};

/// What weights that are given to combine are brought by.
struct late_weights_input {
  const float* topk_weights = nullptr;  // [num_tokens, K] or null
  int num_tokens = 0;                   // of the round's dispatch
};

struct endpoint {
  shape s;
  all_ranks_array<std::byte> windows;  // of each rank, as this rank addresses it
  std::byte* local = nullptr;          // local_cells

  static endpoint of(const shape& s) { return {s, {}}; }
  cells window_cells() const { return cells{s}; }
  std::size_t window_bytes() const { return late_weights::window_bytes(s, window_cells().bytes()); }

  template <class T>
  T* own(std::size_t local_cells::*offset) const {
    return reinterpret_cast<T*>(local + local_cells{s}.*offset);
  }
  round_epochs* epochs() const { return own<round_epochs>(&local_cells::epochs); }
  device_errors* errors() const { return own<device_errors>(&local_cells::errors); }
  received_tokens received() const { return received_at(local, local_cells{s}, s); }

  dispatch_params dispatch(const round_input& in, int senders, bool receives) const {
    return dispatch_with(window_cells(), in, senders, receives);
  }

  template <class Output>
  combine_params<Output> combine(const combine_input& in, const combine_senders& senders, bool receives,
                                 const Output& output) const {
    return combine_with(window_cells(), in, senders, receives, output);
  }
  late_weights::params weights(const late_weights_input& in) const {
    return weights_behind(window_cells().bytes(), in);
  }

 protected:
  /// Other cells of a window take so many bytes.
  late_weights::params weights_behind(std::size_t others, const late_weights_input& in) const {
    return {.s = s,
            .by_top_k = divider{larger(1, s.top_k)},
            .words = late_weights::cells{s, others}.words,
            .windows = of_near_ranks(windows, s.num_ranks),
            .topk_weights = in.topk_weights,
            .num_tokens = in.num_tokens,
            .epochs = epochs(),
            .token_counts = own<std::int32_t>(&local_cells::token_counts),
            .choices = own<std::uint32_t>(&local_cells::choices),
            .entries = own<entry>(&local_cells::entries),
            .entries_follow = true};
  }
  template <class Cells>
  dispatch_params_of<Cells> dispatch_with(const Cells& window, const round_input& in, int senders,
                                          bool receives) const {
    dispatch_params_of<Cells> p{{s, window}};
    fill(p, in, receives);
    p.senders = senders;
    p.row_bytes = s.by_token() ? s.token_row_bytes() : s.payload_bytes();
    p.scale_row = s.by_token() ? s.token_row_bytes() / static_cast<int>(sizeof(float)) : 1;
    p.scale_block = s.by_token() ? 1 : s.max_rows();
    p.units_taken = own<std::uint32_t>(&local_cells::units_taken);
    return p;
  }
  template <class Cells, class Output>
  combine_params<Output, Cells> combine_with(const Cells& window, const combine_input& in,
                                             const combine_senders& senders, bool receives,
                                             const Output& output) const {
    combine_params<Output, Cells> p{{s, window}};
    fill(p, in, receives);
    p.senders = senders.warps;
    p.taken_each = senders.taken_each;
    p.units_taken = own<std::uint32_t>(&local_cells::units_taken);
    p.output = output;
    return p;
  }
  template <class Cells>
  void fill(dispatch_round<Cells>& p, const round_input& in, bool receives) const {
    p.receives = receives;
    p.windows = of_near_ranks(windows, s.num_ranks);
    p.tokens = in.tokens;
    p.topk_idx = in.topk_idx.data;
    p.has_wide_ids = in.topk_idx.is_wide;
    p.replicas = in.replicas;
    p.topk_weights = in.topk_weights;
    p.num_tokens = in.num_tokens;
    p.input_scales = in.input_scales;
    p.epochs = epochs();
    p.errors = errors();
    p.token_counts = own<std::int32_t>(&local_cells::token_counts);
    p.rank_sets = own<std::uint32_t>(&local_cells::rank_sets);
    p.choices = own<std::uint32_t>(&local_cells::choices);
    p.entries = own<entry>(&local_cells::entries);
    p.rows = own<std::byte>(&local_cells::tokens);
    p.token_rows = s.by_token() ? own<std::int32_t>(&local_cells::token_rows) : nullptr;
    p.scales = own<float>(&local_cells::scales);
    p.row_offsets = own<std::int32_t>(&local_cells::row_offsets);
    p.row_counts = own<std::int32_t>(&local_cells::row_counts);
    p.expert_ids = own<std::int32_t>(&local_cells::expert_ids);
    p.sources = own<source_info>(&local_cells::sources);
    p.reports = in.reports;
  }
  template <class Cells>
  void fill(combine_round<Cells>& p, const combine_input& in, bool receives) const {
    p.receives = receives;
    p.windows = of_near_ranks(windows, s.num_ranks);
    p.expert_output = in.expert_output;
    p.num_tokens = in.num_tokens;
    p.epochs = epochs();
    p.token_counts = own<std::int32_t>(&local_cells::token_counts);
    p.rank_sets = own<std::uint32_t>(&local_cells::rank_sets);
    p.choices = own<std::uint32_t>(&local_cells::choices);
    p.entries = own<entry>(&local_cells::entries);
    p.own_sums = own<float>(&local_cells::own_sums);
    p.shared = {in.shared_output};
  }
};

/// The same by flags.
struct flag_endpoint : endpoint {
  static flag_endpoint of(const shape& s) { return {{s, {}}}; }
  flag_cells window_cells() const { return flag_cells{s}; }
  std::size_t window_bytes() const { return late_weights::window_bytes(s, window_cells().bytes()); }
  late_weights::params weights(const late_weights_input& in) const {
    return weights_behind(window_cells().bytes(), in);
  }

  dispatch_params_of<flag_cells> dispatch(const round_input& in, int senders, bool receives) const {
    return dispatch_with(window_cells(), in, senders, receives);
  }
  template <class Output>
  combine_params<Output, flag_cells> combine(const combine_input& in, const combine_senders& senders,
                                             bool receives, const Output& output) const {
    return combine_with(window_cells(), in, senders, receives, output);
  }
};

}  // namespace baton::ep::per_rank
