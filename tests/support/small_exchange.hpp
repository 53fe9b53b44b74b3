#pragma once
// An exchange of two ranks on the CPU machine in memory of the test's own: the kernels of the library, and between any
// two of them the test may change what it likes and put it back. AddressSanitizer knows where each array ends.
#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <vector>

#include "kernels/ep/per_expert/endpoint.hpp"
#include "kernels/ep/per_expert/select.hpp"
#include "kernels/expert_mlp/cpu.hpp"
#include "kernels/run_on_cpu.hpp"
#include "sim/context.hpp"
#include "tests/support/rank_memory.hpp"

namespace baton::test {

class small_exchange {
 public:
  static constexpr int num_ranks = 2, top_k = 2, max_tokens = 2, num_stages = 4;
  /// Expert ids of each rank's tokens, [tokens, top_k].
  using routes = std::array<std::vector<std::int32_t>, num_ranks>;

  /// `by_puts`: each rank is a p2p group of its own.
  small_exchange(token_format format, arrival_policy policy, int num_experts, bool by_puts = false)
      : config_{.format = format, .arrival = policy, .blocks = 2},
        shape_{.num_experts = num_experts,
               .num_ranks = num_ranks,
               .top_k = top_k,
               .hidden = format == token_format::bf16 ? 8 : 128,
               .max_tokens = max_tokens,
               .format = format},
        by_puts_{by_puts} {
    const ep::window_layout window{shape_};
    const auto values = static_cast<std::size_t>(shape_.hidden);
    for (int rank = 0; rank < num_ranks; ++rank) {
      rank_memory& m = memory.emplace_back();
      m.window.resize(by_puts ? ep::send_layout{shape_}.bytes : window.bytes);
      m.local.resize(ep::local_layout{shape_}.bytes);
      m.out.resize(max_tokens * values);
      if (policy == arrival_policy::sentinel)
        std::memset(m.window.data() + window.dispatch_count, 0xff, window.bytes - window.dispatch_count);
      expert_output_.emplace_back(static_cast<std::size_t>(shape_.max_rows()) * values);
    }
    for (int i = 0; i < 3 * matrix_values(); ++i)
      weights_.emplace_back(0.25f * static_cast<float>(i * 7 % 11) - 1.0f);
  }

  const ep::shape& shape() const { return shape_; }
  rank_memory& of_rank(int rank) { return memory[static_cast<std::size_t>(rank)]; }
  template <class T>
  T* in_window(int rank, std::size_t ep::window_layout::*offset) {
    return end_of(rank).of_rank<T>(rank, offset);
  }
  template <class T>
  T* in_local(int rank, std::size_t ep::local_layout::*offset) {
    return end_of(rank).own<T>(offset);
  }

  /// A round from a stage on: dispatch_async, dispatch_wait, experts and combine_async, combine_wait. Before each stage,
  /// the first included, the test gets its say.
  void run(int round, const routes& ids, int first_stage = 0,
           const std::function<void(int)>& before_stage = {}) {
    std::array<std::vector<bfloat16>, num_ranks> tokens;
    for (int rank = 0; rank < num_ranks; ++rank) {
      for (int i = 0; i < tokens_of(ids, rank) * shape_.hidden; ++i)
        tokens[static_cast<std::size_t>(rank)].emplace_back(
            static_cast<float>((i * 5 + rank * 3 + round) % 13 - 6) * 0.125f);
    }
    for (int stage = first_stage; stage < num_stages; ++stage) {
      if (before_stage) before_stage(stage);
      for (int rank = 0; rank < num_ranks; ++rank)
        enqueue(stage, rank, ids, tokens[static_cast<std::size_t>(rank)].data());
      for (int rank = 0; rank < num_ranks; ++rank) machine_.run(rank);
    }
  }

  std::deque<rank_memory> memory;  // of each rank; kernels have addresses in it

 private:
  static constexpr int intermediate = 8;

  static int tokens_of(const routes& ids, int rank) {
    return static_cast<int>(ids[static_cast<std::size_t>(rank)].size()) / top_k;
  }
  int matrix_values() const { return shape_.max_local_experts() * shape_.hidden * intermediate; }

  ep::endpoint end_of(int rank) {
    ep::endpoint e{shape_, {}, of_rank(rank).local.data(), config_.blocks};
    e.s.rank = rank;
    if (by_puts_) e.p2p_group_size = 1;
    for (int r = 0; r < num_ranks; ++r) e.windows.at[r] = of_rank(r).window.data();
    return e;
  }
  template <class Params>
  void launch(int rank, const Params& p) {
    rank_memory& m = of_rank(rank);
    ep::select(config_, p, [&]<class Kernel>(std::size_t shared_bytes) {
      const sim::grid grid{config_.blocks, 1, shared_bytes, {.abort = &m.abort, .record = &m.record}};
      machine_.launch(rank, grid, [p](sim::context& x) { run_on_cpu<Kernel>(x, p); });
    });
  }
  void enqueue(int stage, int rank, const routes& ids, const bfloat16* tokens) {
    const ep::endpoint e = end_of(rank);
    const auto r = static_cast<std::size_t>(rank);
    if (stage == 0) {
      const ep::round_input in{tokens, ids[r].data(), tokens_of(ids, rank), {}};
      by_puts_ ? launch(rank, e.dispatch_async<peer_puts>(in)) : launch(rank, e.dispatch_async(in));
    }
    if (stage == 1) launch(rank, e.dispatch_wait());
    if (stage == 2) {
      machine_.host(rank, [this, e, rank] { apply_experts(e, rank); });
      const bfloat16* rows = expert_output_[r].data();
      by_puts_ ? launch(rank, e.combine_async<peer_puts>(rows)) : launch(rank, e.combine_async(rows));
    }
    if (stage == 3)
      launch(rank, e.combine_wait(tokens_of(ids, rank), nullptr,
                                  ep::store_fp32{of_rank(rank).out.data(), shape_.hidden}));
  }
  /// Rows that no expert computes are NaN.
  void apply_experts(const ep::endpoint& e, int rank) {
    const received_tokens rows = e.received();
    std::vector<bfloat16>& out = expert_output_[static_cast<std::size_t>(rank)];
    out.assign(out.size(), bfloat16::from_bits(0x7fff));
    const bfloat16 *gate = weights_.data(), *up = gate + matrix_values(), *down = up + matrix_values();
    expert_mlp_cpu::run({gate, up, down, rows.num_local_experts, shape_.hidden, intermediate}, rows,
                        out.data());
  }

  ep::launch_config config_;
  ep::shape shape_;
  bool by_puts_;
  sim::machine machine_{num_ranks};
  std::vector<bfloat16> weights_;
  std::vector<std::vector<bfloat16>> expert_output_;
};

}  // namespace baton::test
