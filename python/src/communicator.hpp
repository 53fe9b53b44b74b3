#pragma once
// A communicator of expert parallelism and what a dispatch left, as Python has them.
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "baton/expert_parallel.hpp"
#include "ranks.hpp"

namespace baton::python {

/// A round of a slot, as far as its arguments go.
struct round_arguments {
  int num_tokens = 0;
  int max_rows = -1;  // -1: nothing was received yet
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
  nb::handle expert_output, shared_output, out;
  int slot = 0, num_sms = 0;
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

 private:
  dispatch_input input_of(const dispatch_arguments& given, std::vector<kept_array>& used) const;
  void read_tokens(const dispatch_arguments& given, dispatch_input& in, std::vector<kept_array>& used) const;
  combine_input input_of(const combine_arguments& given, std::vector<kept_array>& used);
  array out_of(nb::handle out, int slot);
  void begin_round(int slot, int num_tokens, std::vector<kept_array> used);
  void end_round(int slot, stream_ref stream);

  py_world rank_;
  std::unique_ptr<expert_parallel> moe_;
  std::vector<round_arguments> rounds_;
  std::atomic<bool> taken_{false};
};

/// What a dispatch left on a rank; its arrays are views that keep the communicator.
struct received {
  nb::object owner;  // the communicator
  received_tokens rows;
};

void bind_received(nb::module_& module);

}  // namespace baton::python
