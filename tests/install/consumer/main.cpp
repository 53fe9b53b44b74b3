// A program outside baton's tree: one round over two ranks through the public headers alone.
#include <baton/baton.hpp>
#include <cstdint>
#include <cstdio>
#include <vector>

int main() {
  constexpr int ranks = 2, hidden = 8;
  const baton::ep_config config{.num_experts = 2, .top_k = 1, .hidden = hidden, .num_max_tokens_per_rank = 1};
  if (const auto reason = baton::why_not(config, ranks); !reason.empty()) {
    std::printf("refused: %s\n", reason.c_str());
    return 1;
  }
  const auto worlds = baton::world::local(ranks, baton::auto_device());
  auto exchange = baton::expert_parallel::create_all(worlds, config);

  // Rank r sends its only token, all values r + 1, to the other rank's expert, which sends it back as it is.
  std::vector<baton::device_buffer<baton::bfloat16>> tokens;
  std::vector<baton::device_buffer<std::int32_t>> expert;
  std::vector<baton::device_buffer<float>> back;
  for (int r = 0; r < ranks; ++r) {
    tokens.emplace_back(worlds[r], std::vector(hidden, baton::bfloat16{static_cast<float>(r + 1)}));
    expert.emplace_back(worlds[r], std::vector<std::int32_t>{1 - r});
    back.emplace_back(worlds[r], hidden);
  }
  for (int r = 0; r < ranks; ++r) exchange[r].dispatch_async(tokens[r].data(), expert[r].data(), 1);
  for (int r = 0; r < ranks; ++r) {
    const auto rows = exchange[r].dispatch_wait();
    exchange[r].combine_async(static_cast<const baton::bfloat16*>(rows.tokens));
  }
  for (int r = 0; r < ranks; ++r) exchange[r].combine_wait(nullptr, back[r].data());

  for (int r = 0; r < ranks; ++r)
    for (const float value : back[r].to_host())
      if (value != static_cast<float>(r + 1)) {
        std::printf("rank %d got %g back instead of %d\n", r, value, r + 1);
        return 1;
      }
  std::printf("baton %s: both tokens came back (%s)\n", baton::version(), baton::build_info().c_str());
  return 0;
}
