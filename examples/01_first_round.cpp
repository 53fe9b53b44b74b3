// One round of expert parallelism: four ranks, eight experts, every token to two of them and back.
// Expert e multiplies by e + 1 here, so the right answer is easy to write down. Token i of rank r goes to the
// experts (r + i) mod 8 and (r + i + 3) mod 8, half weight each.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "baton/baton.hpp"

namespace {

constexpr int num_ranks = 4, num_experts = 8, top_k = 2, hidden = 64, num_tokens = 16;
constexpr std::size_t token_values = std::size_t{num_tokens} * hidden;

struct rank_data {
  std::vector<baton::bfloat16> tokens, expert_out;
  std::vector<std::int32_t> topk_idx;
  std::vector<float> topk_weights, out;
};

std::vector<rank_data> make_inputs() {
  std::vector<rank_data> ranks(num_ranks);
  for (int r = 0; r < num_ranks; ++r) {
    ranks[r].tokens.assign(token_values, baton::bfloat16{1.0f});
    ranks[r].out.assign(token_values, 0.0f);
    for (int i = 0; i < num_tokens; ++i)
      for (const int expert : {(r + i) % num_experts, (r + i + 3) % num_experts})
        ranks[r].topk_idx.push_back(expert);
    ranks[r].topk_weights.assign(num_tokens * top_k, 0.5f);
  }
  return ranks;
}

void run_experts(const baton::received_tokens& rows, std::vector<baton::bfloat16>& out) {
  const auto* in = static_cast<const baton::bfloat16*>(rows.tokens);
  out.assign(static_cast<std::size_t>(rows.max_rows) * hidden, {});
  for (int e = 0; e < rows.num_local_experts; ++e) {
    const auto first = static_cast<std::size_t>(rows.row_offsets[e]) * hidden;
    const auto count = static_cast<std::size_t>(rows.row_counts[e]) * hidden;
    for (std::size_t i = first; i < first + count; ++i)
      out[i] = baton::bfloat16{static_cast<float>(in[i]) * static_cast<float>(rows.expert_ids[e] + 1)};
  }
}

bool is_right(const rank_data& rank) {
  for (std::size_t i = 0; i < token_values; ++i) {
    const std::int32_t* experts = &rank.topk_idx[i / hidden * top_k];
    const float expected =
        0.5f * static_cast<float>(experts[0] + 1) + 0.5f * static_cast<float>(experts[1] + 1);
    if (rank.out[i] != expected) return false;
  }
  return true;
}

}  // namespace

int main() {
  auto mine = make_inputs();
  std::vector<baton::received_tokens> rows(num_ranks);

  const auto ranks = baton::world::local(num_ranks, baton::device_kind::cpu);
  const baton::ep_config config{
      .num_experts = num_experts, .top_k = top_k, .hidden = hidden, .num_max_tokens_per_rank = num_tokens};
  auto moe = baton::expert_parallel::create_all(ranks, config);

  for (int r = 0; r < num_ranks; ++r)
    moe[r].dispatch_async(mine[r].tokens.data(), mine[r].topk_idx.data(), num_tokens);
  for (int r = 0; r < num_ranks; ++r) rows[r] = moe[r].dispatch_wait();
  for (int r = 0; r < num_ranks; ++r) ranks[r].synchronize();
  for (int r = 0; r < num_ranks; ++r) run_experts(rows[r], mine[r].expert_out);
  for (int r = 0; r < num_ranks; ++r) moe[r].combine_async(mine[r].expert_out.data());
  for (int r = 0; r < num_ranks; ++r) moe[r].combine_wait(mine[r].topk_weights.data(), mine[r].out.data());
  for (int r = 0; r < num_ranks; ++r) ranks[r].synchronize();

  const bool right = std::ranges::all_of(mine, is_right);
  std::puts(right ? "it worked: every token is the weighted sum of its experts" : "a result is wrong");
  return right ? 0 : 1;
}
