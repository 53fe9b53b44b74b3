// What a round costs the thread that asks for it, on a GPU where baton finds one: there calls only enqueue. On the CPU they do
// the work. examples/python/host_time.py is the same in Python.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <ratio>
#include <vector>

#include "baton/baton.hpp"

namespace {

constexpr int num_experts = 8, top_k = 2, hidden = 256, num_tokens = 16;
constexpr int rounds_of_batch = 100;  // less than what a stream takes without waiting

using baton::bfloat16;

struct inputs {
  baton::device_buffer<bfloat16> tokens;
  baton::device_buffer<std::int32_t> topk_idx;
  baton::device_buffer<float> topk_weights;
};

inputs make_inputs(const baton::world& rank) {
  std::vector<std::int32_t> chosen;
  for (int i = 0; i < num_tokens * top_k; ++i) chosen.push_back(i % num_experts);
  return {.tokens = {rank, std::vector(std::size_t{num_tokens} * hidden, bfloat16{1.0f})},
          .topk_idx = {rank, chosen},
          .topk_weights = {rank, std::vector(chosen.size(), 0.5f)}};
}

/// The quickest batch: what other processes of the machine do only adds to it.
double microseconds_a_round(const baton::world& rank, baton::expert_parallel& moe, const inputs& given,
                            float* out) {
  using clock = std::chrono::steady_clock;
  double least = std::numeric_limits<double>::infinity();
  const int num_batches = rank.device() == baton::device_kind::cpu ? 10 : 500;  // half a second at most
  for (int batch = 0; batch < num_batches; ++batch) {
    rank.synchronize();
    const auto began = clock::now();
    for (int round = 0; round < rounds_of_batch; ++round) {
      const baton::received_tokens rows =
          moe.dispatch(given.tokens.data(), given.topk_idx.data(), given.topk_weights.data(), num_tokens);
      moe.combine(static_cast<const bfloat16*>(rows.tokens), out);  // experts that give back what they get
      if (rank.device() == baton::device_kind::cpu) rank.synchronize();
    }
    least = std::min(least, std::chrono::duration<double, std::micro>(clock::now() - began).count());
  }
  rank.synchronize();
  return least / rounds_of_batch;
}

}  // namespace

int main() {
  const auto ranks = baton::world::local(1, baton::auto_device());
  auto moe = baton::expert_parallel::create(
      ranks[0],
      {.num_experts = num_experts, .top_k = top_k, .hidden = hidden, .num_max_tokens_per_rank = num_tokens});
  const inputs given = make_inputs(ranks[0]);
  baton::device_buffer<float> out{ranks[0], std::size_t{num_tokens} * hidden};
  const double us = microseconds_a_round(ranks[0], moe, given, out.data());
  const std::vector<float> result = out.to_host();
  const bool right = std::all_of(result.begin(), result.end(), [](float value) { return value == 1.0f; });
  std::printf("%s, in C++: a dispatch and a combine take %.1f us of this thread%s\n",
              ranks[0].device() == baton::device_kind::cpu ? "cpu" : "cuda", us,
              right ? "" : "; a result is wrong");
  return right ? 0 : 1;
}
