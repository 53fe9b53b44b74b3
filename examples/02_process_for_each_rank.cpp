// A layer of experts as a model runs it when it decodes: a process for each rank, the layout for few tokens, and nothing between
// dispatch, experts and combine that waits for the host. Start it with any launcher that sets RANK, WORLD_SIZE and MASTER_PORT:
//   torchrun --no-python --nproc-per-node 4 ./example_02_process_for_each_rank
//   examples/start_ranks.sh 4 ./example_02_process_for_each_rank
// The weights are such that expert e answers e + 1 in every place to a token of 16s: silu(16) * 16 is 256, and `down` scales it.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "baton/baton.hpp"

namespace {

constexpr int experts_per_rank = 2, top_k = 2, num_tokens = 32;
constexpr std::size_t hidden = 128, intermediate = 64;

struct local_experts {
  baton::device_buffer<baton::bfloat16> gate, up, down;
  int count;
  baton::expert_weights weights() const {
    return {
        gate.data(), up.data(), down.data(), count, static_cast<int>(hidden), static_cast<int>(intermediate)};
  }
};

local_experts make_experts(const baton::world& rank, const baton::expert_range& mine) {
  const auto count = static_cast<std::size_t>(mine.count);
  std::vector<baton::bfloat16> first(count * intermediate * hidden), down(count * hidden * intermediate);
  for (std::size_t row = 0; row < count * intermediate; ++row) first[row * hidden] = baton::bfloat16{1.0f};
  for (std::size_t row = 0; row < count * hidden; ++row) {
    const auto expert = static_cast<float>(static_cast<std::size_t>(mine.first) + row / hidden);
    down[row * intermediate] = baton::bfloat16{(expert + 1) / 256};
  }
  return {{rank, first}, {rank, first}, {rank, down}, mine.count};
}

bool run_layer(const baton::world& rank) {
  const int num_experts = experts_per_rank * rank.size();
  auto moe = baton::expert_parallel::create(rank, {.num_experts = num_experts,
                                                   .top_k = top_k,
                                                   .hidden = static_cast<int>(hidden),
                                                   .num_max_tokens_per_rank = num_tokens,
                                                   .layout = baton::ep_layout::per_rank});
  const local_experts experts = make_experts(rank, moe.local_experts());

  std::vector<std::int32_t> chosen;  // neighbours, so that a token's experts are often on two ranks
  for (int t = 0; t < num_tokens; ++t)
    for (int k = 0; k < top_k; ++k) chosen.push_back((t + rank.rank() + k) % num_experts);
  const baton::device_buffer<baton::bfloat16> tokens{
      rank, std::vector(num_tokens * hidden, baton::bfloat16{16.0f})};
  const baton::device_buffer<std::int32_t> topk_idx{rank, chosen};
  const baton::device_buffer<float> topk_weights{rank, std::vector(chosen.size(), 0.5f)};
  baton::device_buffer<float> out{rank, num_tokens * hidden};

  const baton::received_tokens rows =
      moe.dispatch(tokens.data(), topk_idx.data(), topk_weights.data(), num_tokens);
  // Their size is that of the most rows that can come, the same in every round: a model makes them once.
  baton::device_buffer<baton::bfloat16> answers{rank, static_cast<std::size_t>(rows.max_rows) * hidden};
  baton::device_buffer<std::byte> scratch{
      rank, baton::expert_mlp_scratch_bytes(experts.weights(), rows, rank.device())};
  baton::expert_mlp(rank, experts.weights(), rows, answers.data(), scratch.data());
  moe.combine(answers.data(), out.data());

  const std::vector<float> result = out.to_host();
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int32_t* const pair = &chosen[i / hidden * top_k];
    if (result[i] != 0.5f * static_cast<float>(pair[0] + pair[1] + 2)) return false;
  }
  return true;
}

}  // namespace

int main() try {
  const auto rank = baton::world::from_environment(baton::auto_device());
  const bool right = run_layer(rank);
  std::printf("rank %d of %d: %s\n", rank.rank(), rank.size(), right ? "it worked" : "a result is wrong");
  return right ? 0 : 1;
} catch (const baton::error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
