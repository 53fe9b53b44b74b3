// One round of expert parallelism: four ranks, eight experts, every token to two of them and back. On GPUs where baton finds
// some, else on the CPU. Expert e multiplies by e + 1 here, so the right answer is easy to write down. Token i of rank r goes
// to the experts (r + i) mod 8 and (r + i + 3) mod 8, half weight each.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "baton/baton.hpp"

namespace {

constexpr int num_ranks = 4, num_experts = 8, top_k = 2, hidden = 64, num_tokens = 16;
constexpr std::size_t token_values = std::size_t{num_tokens} * hidden;

struct rank_data {
  baton::device_buffer<baton::bfloat16> tokens, expert_out;
  baton::device_buffer<std::int32_t> topk_idx;
  baton::device_buffer<float> topk_weights, out;
};

std::vector<std::int32_t> experts_of_tokens(int rank) {
  std::vector<std::int32_t> experts;
  for (int i = 0; i < num_tokens; ++i)
    for (const int e : {(rank + i) % num_experts, (rank + i + 3) % num_experts}) experts.push_back(e);
  return experts;
}

rank_data make_data(const baton::world& rank) {
  return {.tokens = {rank, std::vector(token_values, baton::bfloat16{1.0f})},
          .expert_out = {},
          .topk_idx = {rank, experts_of_tokens(rank.rank())},
          .topk_weights = {rank, std::vector(num_tokens * top_k, 0.5f)},
          .out = {rank, token_values}};
}

/// On the host, to show what arrives where; baton::expert_mlp computes a model's experts on the device.
baton::device_buffer<baton::bfloat16> run_experts(const baton::world& rank,
                                                  const baton::received_tokens& rows) {
  const auto experts = static_cast<std::size_t>(rows.num_local_experts);
  const auto offsets = baton::to_host(rank, rows.row_offsets, experts);
  const auto counts = baton::to_host(rank, rows.row_counts, experts);
  const auto ids = baton::to_host(rank, rows.expert_ids, experts);
  auto values = baton::to_host(rank, static_cast<const baton::bfloat16*>(rows.tokens),
                               static_cast<std::size_t>(rows.max_rows) * hidden);
  for (std::size_t e = 0; e < experts; ++e)
    for (int i = offsets[e] * hidden; i < (offsets[e] + counts[e]) * hidden; ++i)
      values[i] = baton::bfloat16{static_cast<float>(values[i]) * static_cast<float>(ids[e] + 1)};
  return {rank, values};
}

bool is_right(const baton::world& rank, const rank_data& data) {
  const auto experts = experts_of_tokens(rank.rank());
  const auto out = data.out.to_host();
  for (std::size_t i = 0; i < token_values; ++i) {
    const std::int32_t* chosen = &experts[i / hidden * top_k];
    if (out[i] != 0.5f * static_cast<float>(chosen[0] + 1) + 0.5f * static_cast<float>(chosen[1] + 1))
      return false;
  }
  return true;
}

}  // namespace

int main() {
  const auto ranks = baton::world::local(num_ranks, baton::auto_device());
  const baton::ep_config config{
      .num_experts = num_experts, .top_k = top_k, .hidden = hidden, .num_max_tokens_per_rank = num_tokens};
  auto moe = baton::expert_parallel::create_all(ranks, config);

  std::vector<rank_data> mine;
  std::vector<baton::received_tokens> rows(num_ranks);
  for (const baton::world& rank : ranks) mine.push_back(make_data(rank));

  for (int r = 0; r < num_ranks; ++r)
    moe[r].dispatch_async(mine[r].tokens.data(), mine[r].topk_idx.data(), mine[r].topk_weights.data(),
                          num_tokens);
  for (int r = 0; r < num_ranks; ++r) rows[r] = moe[r].dispatch_wait();
  for (int r = 0; r < num_ranks; ++r) mine[r].expert_out = run_experts(ranks[r], rows[r]);
  for (int r = 0; r < num_ranks; ++r) moe[r].combine_async(mine[r].expert_out.data());
  for (int r = 0; r < num_ranks; ++r) moe[r].combine_wait(nullptr, mine[r].out.data());

  bool right = true;
  for (int r = 0; r < num_ranks; ++r) right = is_right(ranks[r], mine[r]) && right;
  std::puts(right ? "it worked: every token is the weighted sum of its experts" : "a result is wrong");
  return right ? 0 : 1;
}
