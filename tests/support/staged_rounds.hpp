#pragma once
// Ranks of layout per_rank on the CPU machine, in memory of the test's own. A round is four kernels a rank, and the test may
// change memory before each.
#include <array>
#include <functional>
#include <vector>

#include "kernels/ep/shape.hpp"
#include "kernels/run_on_cpu.hpp"
#include "sim/context.hpp"
#include "sim/machine.hpp"
#include "tests/support/rank_memory.hpp"

namespace baton::test {

template <int num_ranks>
class staged_rounds {
 public:
  enum stage { send, receive, send_sums, receive_sums, num_stages };

  void run(int first_stage = send, const std::function<void(int)>& before_stage = {},
           int stages = num_stages) {
    for (int at = first_stage; at < stages; ++at) {
      if (before_stage) before_stage(at);
      for (int rank = 0; rank < num_ranks; ++rank) enqueue(at, rank);
      for (int rank = 0; rank < num_ranks; ++rank) machine_.run(rank);
    }
  }

  const ep::shape& shape() const { return shape_; }
  const sim::machine& machine() const { return machine_; }
  rank_memory& of_rank(int rank) { return memory[static_cast<std::size_t>(rank)]; }
  std::uint64_t& word(int rank, std::size_t offset) {
    return *reinterpret_cast<std::uint64_t*>(of_rank(rank).window.data() + offset);
  }

  std::array<rank_memory, num_ranks> memory;

 protected:
  explicit staged_rounds(const ep::shape& s, const sim::options& options = {})
      : shape_{s}, machine_{num_ranks, options} {}
  ~staged_rounds() = default;

  void take_memory(std::size_t window_bytes, std::size_t local_bytes) {
    for (rank_memory& m : memory) {
      m.window.resize(window_bytes);
      m.local.resize(local_bytes);
      m.out.resize(static_cast<std::size_t>(shape_.max_tokens * shape_.hidden));
    }
  }
  /// As that rank sees what is the same for all.
  template <class Endpoint>
  Endpoint end_of(int rank, Endpoint e) {
    e.s.rank = rank;
    e.local = of_rank(rank).local.data();
    for (int r = 0; r < num_ranks; ++r) e.windows.at[r] = of_rank(r).window.data();
    return e;
  }
  /// By two blocks.
  template <class Kernel, class Params>
  void launch(int rank, const Params& p, int warps, std::size_t shared_bytes) {
    rank_memory& m = of_rank(rank);
    const sim::grid grid{2, warps, shared_bytes, {.abort = &m.abort, .record = &m.record}};
    machine_.launch(rank, grid, [p](sim::context& x) { run_on_cpu<Kernel>(x, p); });
  }
  /// Of a rank, of each token other values.
  std::vector<bfloat16> some_tokens(int rank) const {
    std::vector<bfloat16> all;
    for (int i = 0; i < shape_.max_tokens * shape_.hidden; ++i)
      all.emplace_back(static_cast<float>(i % 97 + 100 * rank));
    return all;
  }
  std::vector<std::int32_t> some_ids(int rank) const {
    std::vector<std::int32_t> all;
    for (int i = 0; i < shape_.max_tokens * shape_.top_k; ++i)
      all.push_back((i * i + i / 3 + rank) % (shape_.num_experts + 1) - 1);
    return all;
  }

  ep::shape shape_;

 private:
  virtual void enqueue(int at, int rank) = 0;

  sim::machine machine_;
};

}  // namespace baton::test
