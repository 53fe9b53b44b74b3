#pragma once
// A communicator of expert parallelism and what a dispatch left, as Python has them.
#include <atomic>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "baton/expert_parallel.hpp"
#include "ranks.hpp"

namespace baton::python {

/// What scales of a format are, where it has some.
constexpr element scales_of(token_format format) {
  return format == token_format::blockwise_fp8 ? element::fp32
         : format == token_format::nvfp4       ? element::e4m3
                                               : element::e8m0;
}

/// A round of a slot, as far as its arguments go.
struct round_arguments {
  int num_tokens = 0;
  int max_rows = -1;  // -1: nothing was received yet
  int rows_came = 0;  // to a CPU rank, which knows: where the last of them ends
  std::vector<kept_array> used;
};

/// One call at a time: a second thread is told, not let in.
class turn {
 public:
  /// @throws invalid_argument  another thread has it
  explicit turn(std::atomic<bool>& taken);
  ~turn() { taken_.store(false); }
  turn(const turn&) = delete;
  turn& operator=(const turn&) = delete;

 private:
  std::atomic<bool>& taken_;
};

/// What Python gives to dispatch and combine, by name.
struct dispatch_arguments {
  nb::handle tokens, topk_idx, topk_weights, input_scales, expert_load;
  int slot = 0, num_sms = 0;
};
struct combine_arguments {
  nb::handle expert_output, shared_output, topk_weights, out;
  int slot = 0, num_sms = 0;
  int num_rows =
      -1;  // that were received, where the host knows; -1: expert_output has as many as there may be
};

class communicator {
 public:
  communicator(py_world rank, expert_parallel moe)
      : rank_{std::move(rank)},
        moe_{std::make_unique<expert_parallel>(std::move(moe))},
        rounds_(static_cast<std::size_t>(moe_->config().num_slots)) {}

  const py_world& rank() const { return rank_; }
  const expert_parallel& moe() const { return *moe_; }
  round_arguments& round(int slot);

  void dispatch_async(const dispatch_arguments& given, std::uintptr_t stream);
  received_tokens dispatch_wait(int slot, std::uintptr_t stream);
  received_tokens dispatch(const dispatch_arguments& given, std::uintptr_t stream);
  void combine_async(const combine_arguments& given, std::uintptr_t stream);
  void combine_wait(nb::handle topk_weights, nb::handle out, int slot, std::uintptr_t stream);
  void combine(const combine_arguments& given, std::uintptr_t stream);
  void check();

  /// What the calls of these arguments refuse of arrays, which are looked at in the same way; sends nothing.
  void check_arguments(const dispatch_arguments& given) const;
  void check_arguments(const combine_arguments& given);

  // Without Python's lock, which the others of a thread may wait for; `may_release` is asked with it.
  /// @throws invalid_argument  views of what was received are alive
  void may_release() const;
  void release();
  void reacquire();
  void set_members(const ep_membership& members);
  void forget_rounds();  // with Python's lock: after these three rounds begin anew

  std::shared_ptr<std::atomic<int>> live_views() const { return live_views_; }

 private:
  dispatch_input input_of(const dispatch_arguments& given, std::vector<kept_array>& used) const;
  void read_tokens(const dispatch_arguments& given, dispatch_input& in, std::vector<kept_array>& used) const;
  combine_input input_of(const combine_arguments& given, std::vector<kept_array>& used);
  array out_of(nb::handle out, int slot, std::span<const kept_array> used);
  void begin_round(int slot, int num_tokens, std::vector<kept_array> used);
  void note_received(round_arguments& its, const received_tokens& rows, stream_ref stream);
  void end_round(int slot, stream_ref stream);

  py_world rank_;
  std::unique_ptr<expert_parallel> moe_;
  std::vector<round_arguments> rounds_;
  std::atomic<bool> taken_{false};
  std::shared_ptr<std::atomic<int>> live_views_ = std::make_shared<std::atomic<int>>(0);
};

/// Is counted while it is there.
class live_view {
 public:
  explicit live_view(std::shared_ptr<std::atomic<int>> count) : count_{std::move(count)} { ++*count_; }
  live_view(const live_view& other) : live_view{other.count_} {}
  live_view(live_view&& other) noexcept : live_view{other.count_} {}
  live_view& operator=(const live_view&) = delete;
  ~live_view() { --*count_; }

 private:
  std::shared_ptr<std::atomic<int>> count_;
};

/// What a dispatch left on a rank; its arrays are views that keep it, and it keeps the communicator.
struct received {
  nb::object owner;  // the communicator
  received_tokens rows;
  live_view counted;
};

received received_by(nb::object of, const received_tokens& rows);

void bind_received(nb::module_& module);

}  // namespace baton::python
