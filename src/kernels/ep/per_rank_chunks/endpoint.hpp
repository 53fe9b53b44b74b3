#pragma once
// One rank's end of a communicator of layout per_rank whose tokens travel in chunks, as per_rank/endpoint.hpp is of lines.
#include "kernels/ep/per_rank/endpoint.hpp"
#include "kernels/ep/per_rank_chunks/params.hpp"

namespace baton::ep::per_rank_chunks {

using per_rank::combine_input;
using per_rank::round_input;

struct endpoint {
  shape s;
  peer_array<std::byte> windows;  // of each rank, as this rank addresses it
  std::byte* local = nullptr;     // local_cells
  chunk_settings settings{};

  template <class T>
  T* own(std::size_t local_cells::*offset) const {
    return reinterpret_cast<T*>(local + local_cells{s, settings}.*offset);
  }
  device_errors* errors() const { return own<device_errors>(&local_cells::errors); }
  received_tokens received() const { return received_at(local, local_cells{s, settings}, s); }

  dispatch_params dispatch(const round_input& in, const block_roles& roles, bool receives) const {
    dispatch_params p{s, cells{s, settings}};
    p.roles = roles;
    p.receives = receives;
    p.windows = windows;
    p.tokens = in.tokens;
    p.topk_idx = in.topk_idx;
    p.topk_weights = in.topk_weights;
    p.num_tokens = in.num_tokens;
    p.input_scales = in.input_scales;
    p.epochs = own<round_epochs>(&local_cells::epochs);
    p.errors = errors();
    p.token_counts = own<std::int32_t>(&local_cells::token_counts);
    p.rank_sets = own<std::uint32_t>(&local_cells::rank_sets);
    p.choices = own<std::uint32_t>(&local_cells::choices);
    p.entries = own<entry>(&local_cells::entries);
    p.choice_experts = own<std::uint16_t>(&local_cells::choice_experts);
    p.tile_words = own<std::uint64_t>(&local_cells::tile_words);
    p.tile_bits = own<std::uint32_t>(&local_cells::tile_bits);
    p.tile_counts = own<std::uint32_t>(&local_cells::tile_counts);
    p.tile_rows = own<std::int32_t>(&local_cells::tile_rows);
    p.rows = own<std::byte>(&local_cells::tokens);
    p.scales = own<float>(&local_cells::scales);
    p.row_offsets = own<std::int32_t>(&local_cells::row_offsets);
    p.row_counts = own<std::int32_t>(&local_cells::row_counts);
    p.expert_ids = own<std::int32_t>(&local_cells::expert_ids);
    p.sources = own<source_info>(&local_cells::sources);
    return p;
  }

  template <class Output>
  combine_params<Output> combine(const combine_input& in, const block_roles& roles, bool receives,
                                 const Output& output) const {
    combine_params<Output> p{s, cells{s, settings}};
    p.roles = roles;
    p.receives = receives;
    p.windows = windows;
    p.expert_output = in.expert_output;
    p.num_tokens = in.num_tokens;
    p.output = output;
    p.epochs = own<round_epochs>(&local_cells::epochs);
    p.token_counts = own<std::int32_t>(&local_cells::token_counts);
    p.rank_sets = own<std::uint32_t>(&local_cells::rank_sets);
    p.choices = own<std::uint32_t>(&local_cells::choices);
    p.entries = own<entry>(&local_cells::entries);
    p.own_sums = own<float>(&local_cells::own_sums);
    return p;
  }
};

}  // namespace baton::ep::per_rank_chunks
