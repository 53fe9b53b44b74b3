#pragma once
// What differs between the layouts of a communicator: its memory, and which kernels a call enqueues. Arguments have been
// checked; calls come in the order of a round.
#include <functional>
#include <memory>
#include <variant>

#include "baton/expert_parallel.hpp"
#include "kernels/ep/outputs.hpp"
#include "kernels/ep/params.hpp"
#include "kernels/ep/progress.hpp"
#include "kernels/ep/shape_of.hpp"

namespace baton {

class ep_layout_calls {
 public:
  using output = std::variant<ep::store_fp32, ep::store_bf16, ep::store_unreduced>;

  /// What combine_wait reads of the round's own rank.
  struct late_input {
    const float* topk_weights;      // null: dispatch's, or 1
    const bfloat16* shared_output;  // of combine_async
  };

  struct creating_host {
    virtual ~creating_host() = default;
    virtual void fill(void* at, unsigned char byte, std::size_t bytes) const = 0;
    virtual void together(const std::function<void()>& step) const = 0;
  };

  virtual ~ep_layout_calls() = default;
  /// Memory of its own, and everybody's windows.
  virtual void place(std::byte* local, const ep::all_ranks_array<std::byte>& windows) = 0;
  virtual void make_ready(const creating_host& host) const = 0;
  virtual ep::device_errors* errors() const = 0;
  /// In device memory: bit r: rank r takes no part. Null: all always do.
  virtual std::uint64_t* absent() const = 0;
  /// Where dispatch_wait leaves what came, and how.
  virtual received_tokens received() const = 0;
  /// The most blocks that a call may ask for.
  virtual int num_sms() const = 0;
  /// Rounds on the device, and what has been heard of peers, for dump_state().
  virtual void look(const ep::progress_reader& read, ep_state& state) const = 0;

  virtual void dispatch_async(const dispatch_input& in, stream_ref stream) = 0;
  virtual received_tokens dispatch_wait(stream_ref stream) = 0;
  virtual received_tokens dispatch(const dispatch_input& in, stream_ref stream) = 0;
  virtual void combine_async(const combine_input& in, stream_ref stream) = 0;
  virtual void combine_wait(const late_input& in, const output& out, stream_ref stream) = 0;
  virtual void combine(const combine_input& in, const output& out, stream_ref stream) = 0;
};

/// The calls of config.layout, of one of the communicator's slots.
/// @throws invalid_argument  num_sms is more than the rank may use
std::unique_ptr<ep_layout_calls> make_layout(const world& w, const ep_config& config, int slot);
std::unique_ptr<ep_layout_calls> make_per_expert_layout(const world& w, const ep_config& config, int sms,
                                                        int slot);
std::unique_ptr<ep_layout_calls> make_per_rank_layout(const world& w, const ep_config& config, int sms,
                                                      int slot);

/// What lies before slot `slot` in a window and in a rank's own memory: slots are alike, one behind the other.
workspace_size bytes_before(const ep_config& config, int num_ranks, int slot);

/// A slot as stuck records have it: a communicator that has one does not speak of it.
inline int reported_slot(const ep_config& c, int slot) {
  return c.num_slots > 1 ? slot : -1;
}

/// Whether some ranks are not in this rank's p2p group.
inline bool goes_beyond_group(const ep_config& c, int num_ranks) {
  return c.p2p_group_size != 0 && c.p2p_group_size < num_ranks;
}

/// Whether the kernels of all ranks have many blocks, unless a call asks for few, and reach all ranks by stores.
inline bool has_many_blocks(const ep_config& c, int num_ranks) {
  constexpr int few = 64;
  return (c.num_sms == 0 || c.num_sms > few) && !goes_beyond_group(c, num_ranks);
}

/// Whether what is for them is forwarded. In groups of one rank a forwarder would forward to itself alone: the same messages, and
/// the same bits of every sum, later.
inline bool has_two_levels(const ep_config& c, int num_ranks) {
  return c.levels == ep_levels::two && goes_beyond_group(c, num_ranks) && c.p2p_group_size > 1;
}

/// Where a round's tokens are, and their scales: the input scales, or those of tokens that are given in the format.
struct token_source {
  const void* values;
  const void* scales;
  bool is_given;
};
inline token_source source_of(const dispatch_input& in) {
  if (const auto* given = std::get_if<quantised_tokens>(&in.tokens))
    return {given->values, given->scales, true};
  return {std::get<const bfloat16*>(in.tokens), in.input_scales, false};
}

using ep::shape_of;

}  // namespace baton
