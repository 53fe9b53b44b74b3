#pragma once
// One of a communicator's slots as the host knows it: how far its round has come, and what that leaves to be called.
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "api/ep_layout.hpp"

namespace baton {

/// Rounds are dispatch_async, dispatch_wait, combine_async, combine_wait: nothing else keeps buffers safe.
class ep_round {
 public:
  /// Slot `slot` of a communicator. @throws invalid_argument  as make_layout
  ep_round(const world& w, const ep_config& config, int slot);

  ep_layout_calls& calls() { return *calls_; }
  const ep_layout_calls& calls() const { return *calls_; }
  /// As if none had been called.
  void begin_anew() { next_ = step::dispatch_async; }
  bool is_over() const { return next_ == step::dispatch_async; }
  /// "dispatch_wait", and of which slot, if there are several.
  std::string due() const;
  std::uint64_t rounds_called() const { return rounds_called_; }
  /// What an id stands for that is none.
  std::string why_no_expert(std::int32_t id) const;

  void dispatch_async(const dispatch_input& in, stream_ref stream);
  received_tokens dispatch_wait(stream_ref stream);
  received_tokens dispatch(const dispatch_input& in, stream_ref stream);
  void combine_async(const combine_input& in, stream_ref stream);
  void combine_wait(const float* topk_weights, const void* out, const ep_layout_calls::output& output,
                    stream_ref stream);
  void combine(const combine_input& in, const void* out, const ep_layout_calls::output& output,
               stream_ref stream);

 private:
  enum class step { dispatch_async, dispatch_wait, combine_async, combine_wait };

  void require(step due, const char* called) const;
  void begin(const dispatch_input& in, const char* called);
  void check_input(const combine_input& in) const;
  received_tokens dispatched(received_tokens received);
  void done(step called) { next_ = static_cast<step>((static_cast<int>(called) + 1) % 4); }

  world ranks_;
  ep_config config_;
  int slot_;
  std::unique_ptr<ep_layout_calls> calls_;
  std::atomic<step> next_ = step::dispatch_async;  // dump_state reads these two from any thread
  std::atomic<std::uint64_t> rounds_called_ = 0;
  int num_tokens_ = 0;
  int num_logical_ = 0;                      // experts that the round's ids are of, if there is a map
  bool weights_given_ = false;               // at dispatch
  const bfloat16* shared_output_ = nullptr;  // at combine_async, for combine_wait
  const void* tokens_once_ = nullptr;        // the round's received tokens, where they do not lie by expert
  const float* tensor_scale_ = nullptr;      // nvfp4: the input scale that this rank gave
};

}  // namespace baton
