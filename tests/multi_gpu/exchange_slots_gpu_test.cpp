// Several rounds in flight at once on GPUs: each slot's round is a CUDA graph of its own, and the slots' graphs run side by side
// on streams of their own. What the next rounds are given, and what must come of them, is made by other threads meanwhile.
#include <future>

#include "tests/support/captured_round.hpp"
#include "tests/support/exchange_cases.hpp"
#include "tests/support/gpu_count.hpp"
#include "tests/support/identity_experts.hpp"

namespace baton::test {
namespace {

class exchange_slots_gpu : public testing::TestWithParam<travel> {
 protected:
  static constexpr int num_slots = 3;

  void SetUp() override {
    BATON_REQUIRE_GPUS(2);
    const int n = num_gpus() >= 4 ? 4 : 2;
    worlds_ = world::local(n, device_kind::cuda);
    case_ = travelling(GetParam(),
                       {n, sizes(24, 4, 1024, 200), std::vector<int>(worlds_.size(), 200), routing::sparse});
    case_.config.num_slots = num_slots;
    captured_.resize(num_slots);
    for (auto& of_slot : captured_) {
      for (const world& w : worlds_) {
        ASSERT_EQ(cudaSetDevice(w.device_index()), cudaSuccess);
        ASSERT_EQ(cudaStreamCreateWithFlags(&of_slot.emplace_back().stream, cudaStreamNonBlocking),
                  cudaSuccess);
      }
    }
    slots_ = make_slots(worlds_, case_.config, [&](int s, int r) {
      return stream_ref{captured_[static_cast<std::size_t>(s)][static_cast<std::size_t>(r)].stream};
    });
    for (auto& ranks : slots_)
      for (exchange_rank& rank : ranks) rank.options.dispatch_sms = rank.options.combine_sms = sms_of_slot;
  }
  void TearDown() override {
    slots_.clear();
    for (auto& of_slot : captured_) {
      for (captured_rank& c : of_slot) {
        EXPECT_TRUE(c.graph == nullptr || cudaGraphExecDestroy(c.graph) == cudaSuccess);
        EXPECT_EQ(cudaStreamDestroy(c.stream), cudaSuccess);
      }
    }
  }
  /// Gives every slot a round of its own; those of the next seed are drawn from now on.
  void load(std::uint64_t seed) {
    if (next_.empty()) draw(seed);
    now_.clear();
    for (auto& drawn : next_) now_.push_back(drawn.get());
    draw(seed + 1);
    for (std::size_t s = 0; s < slots_.size(); ++s)
      for (std::size_t r = 0; r < worlds_.size(); ++r) slots_[s][r].load(now_[s].inputs[r]);
  }
  void expect_outputs(std::uint64_t seed) {
    for (std::size_t s = 0; s < slots_.size(); ++s)
      for (std::size_t r = 0; r < worlds_.size(); ++r)
        ASSERT_EQ(difference(now_[s].outputs[r], slots_[s][r].read_output()), "")
            << "round " << seed << ", slot " << s << ", rank " << r;
  }

  /// So that the kernels of all slots find room beside each other.
  static constexpr int sms_of_slot = 132 / num_slots;
  std::vector<world> worlds_;
  exchange_case case_;
  std::vector<std::vector<captured_rank>> captured_;  // [slot][rank]
  std::vector<std::vector<exchange_rank>> slots_;

 private:
  /// A slot's.
  struct drawn_round {
    std::vector<rank_inputs> inputs;
    std::vector<std::vector<float>> outputs;
  };
  void draw(std::uint64_t seed) {
    next_.clear();
    for (std::size_t s = 0; s < slots_.size(); ++s)
      next_.push_back(std::async(std::launch::async, [c = case_, slot_seed = seed * slots_.size() + s] {
        drawn_round drawn{draw_inputs(c, slot_seed), {}};
        for (std::size_t r = 0; r < drawn.inputs.size(); ++r)
          drawn.outputs.push_back(identity_output(c, drawn.inputs[r], static_cast<int>(r)));
        return drawn;
      }));
  }

  std::vector<drawn_round> now_;
  std::vector<std::future<drawn_round>> next_;
};

// Experts that return rows take them by expert.
INSTANTIATE_TEST_SUITE_P(cuda, exchange_slots_gpu,
                         testing::Values(travel::by_expert, travel::in_lines, travel::in_chunks,
                                         travel::by_flags),
                         [](const auto& how) { return name(how.param); });

TEST_P(exchange_slots_gpu, graphs_of_all_slots_replayed_side_by_side_stay_right_to_the_bit) {
  load(0);
  for (std::size_t s = 0; s < slots_.size(); ++s) {
    for (std::size_t r = 0; r < worlds_.size(); ++r) {
      worlds_[r].synchronize({captured_[s][r].stream});
      ASSERT_NO_FATAL_FAILURE(capture_round(slots_[s][r], captured_[s][r], [](exchange_rank& rank) {
        enqueue_identity_round(rank, calls::fused);
      }));
    }
  }
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    load(seed);
    for (std::size_t i = 0; i < slots_.size(); ++i) {  // in orders that differ between ranks
      for (std::size_t r = 0; r < worlds_.size(); ++r) {
        const captured_rank& c = captured_[(i + r + seed) % slots_.size()][r];
        ASSERT_EQ(cudaGraphLaunch(c.graph, c.stream), cudaSuccess);
      }
    }
    ASSERT_NO_FATAL_FAILURE(expect_outputs(seed));
  }
}

TEST_P(exchange_slots_gpu, calls_of_two_batches_in_turn_stay_right_to_the_bit) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    load(seed);
    const auto all = [&](std::size_t slot, auto call) {
      for (exchange_rank& rank : slots_[slot]) call(rank);
    };
    const auto reply = [](exchange_rank& rank) {
      rank.combine_async(static_cast<const bfloat16*>(rank.received().tokens));
    };
    for (const std::size_t s : {0, 1, 2}) all(s, [](exchange_rank& rank) { rank.dispatch_async(); });
    for (const std::size_t s : {0, 1, 2}) {
      all(s, [](exchange_rank& rank) { rank.dispatch_wait(); });
      all(s, reply);
    }
    for (const std::size_t s : {2, 0, 1}) all(s, [](exchange_rank& rank) { rank.combine_wait(); });
    ASSERT_NO_FATAL_FAILURE(expect_outputs(seed));
  }
}

}  // namespace
}  // namespace baton::test
