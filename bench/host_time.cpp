// Rounds of examples/03_host_time.cpp for bench/host_time.py, which times them in turn with its own in one process:
//   g++ -std=c++20 -O3 -shared -fPIC bench/host_time.cpp -o libhost_time.so    with what links against an installed baton
#include <cstdint>
#include <vector>

#include "baton/baton.hpp"

namespace {

constexpr int num_experts = 8, top_k = 2, hidden = 256, num_tokens = 16;
using baton::bfloat16;

struct exchange {
  std::vector<baton::world> ranks = baton::world::local(1, baton::device_kind::cuda);
  baton::expert_parallel moe = baton::expert_parallel::create(
      ranks[0],
      {.num_experts = num_experts, .top_k = top_k, .hidden = hidden, .num_max_tokens_per_rank = num_tokens});
  baton::device_buffer<bfloat16> tokens{ranks[0],
                                        std::vector(std::size_t{num_tokens} * hidden, bfloat16{1.0f})};
  baton::device_buffer<std::int32_t> topk_idx{ranks[0], chosen()};
  baton::device_buffer<float> topk_weights{ranks[0], std::vector(std::size_t{num_tokens} * top_k, 0.5f)};
  baton::device_buffer<float> out{ranks[0], std::size_t{num_tokens} * hidden};

  static std::vector<std::int32_t> chosen() {
    std::vector<std::int32_t> ids;
    for (int i = 0; i < num_tokens * top_k; ++i) ids.push_back(i % num_experts);
    return ids;
  }
};

exchange& the_exchange() {
  static exchange only;
  return only;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void host_time_rounds(int count) {
  exchange& e = the_exchange();
  for (int round = 0; round < count; ++round) {
    const baton::received_tokens rows =
        e.moe.dispatch(e.tokens.data(), e.topk_idx.data(), e.topk_weights.data(), num_tokens);
    e.moe.combine(static_cast<const bfloat16*>(rows.tokens), e.out.data());
  }
}

extern "C" __attribute__((visibility("default"))) void host_time_halves(int count) {
  exchange& e = the_exchange();
  for (int round = 0; round < count; ++round) {
    e.moe.dispatch_async(e.tokens.data(), e.topk_idx.data(), e.topk_weights.data(), num_tokens);
    const baton::received_tokens rows = e.moe.dispatch_wait();
    e.moe.combine_async(static_cast<const bfloat16*>(rows.tokens));
    e.moe.combine_wait(nullptr, e.out.data());
  }
}
