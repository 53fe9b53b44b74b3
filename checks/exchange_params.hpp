#pragma once
// What the kernels of one rank of the exchange are given in a round.
#include "checks/exchange_memory.hpp"
#include "kernels/ep/combine_wait.hpp"

namespace baton::checks {

class exchange_params {
 public:
  exchange_params(const exchange_setting& e, const std::vector<exchange_memory>& all, int rank, int warps)
      : setting_{e}, all_{all}, rank_{rank}, warps_{warps} {}

  ep::dispatch_async_params<> dispatch_async(int round) const {
    const ep::shape& s = me().s;
    const ep::window_layout window{s};
    const ep::local_layout local{s};
    ep::dispatch_async_params<> p{};
    p.s = s;
    p.tokens = me().tokens + round * tokens() * s.hidden;
    p.topk_idx = me().topk_idx + round * tokens() * s.top_k;
    p.num_tokens = tokens();
    p.split = ep::split_rows(ep::steps_of(s), tokens(), warps_);
    for (int rank = 0; rank < s.num_ranks; ++rank) {
      p.receive.at[rank] = of_rank(rank).window + window.dispatch_buffer;
      p.count.at[rank] = of_rank(rank).in_window(window.dispatch_count);
    }
    p.counters = me().counters();
    p.send_slots = me().in_local<std::int32_t>(local.send_slots);
    p.rounds = me().rounds();
    p.errors = me().in_local<ep::device_errors>(local.errors);
    return p;
  }

  ep::dispatch_wait_params dispatch_wait() const {
    const ep::window_layout window{me().s};
    const ep::local_layout local{me().s};
    ep::dispatch_wait_params p{};
    p.s = me().s;
    p.receive = me().window + window.dispatch_buffer;
    p.count = me().in_window(window.dispatch_count);
    p.counters = me().counters();
    p.rounds = me().rounds();
    p.tokens = me().in_local<std::byte>(local.tokens);
    p.scales = me().in_local<float>(local.scales);
    p.row_offsets = me().in_local<std::int32_t>(local.row_offsets);
    p.row_counts = me().in_local<std::int32_t>(local.row_counts);
    p.expert_ids = me().in_local<std::int32_t>(local.expert_ids);
    p.sources = me().in_local<source_info>(local.sources);
    return p;
  }

  ep::combine_async_params combine_async() const {
    const ep::window_layout window{me().s};
    const ep::local_layout local{me().s};
    ep::combine_async_params p{};
    p.s = me().s;
    p.expert_output = me().in_local<bfloat16>(local.tokens);
    p.sources = me().in_local<source_info>(local.sources);
    for (int rank = 0; rank < p.s.num_ranks; ++rank) {
      p.reply.at[rank] = of_rank(rank).window + window.combine_buffer;
      p.count.at[rank] = of_rank(rank).in_window(window.combine_count);
    }
    p.counters = me().counters();
    p.rounds = me().rounds();
    p.errors = me().in_local<ep::device_errors>(local.errors);
    return p;
  }

  ep::combine_wait_params<ep::store_fp32> combine_wait() const {
    const ep::window_layout window{me().s};
    const ep::local_layout local{me().s};
    ep::combine_wait_params<ep::store_fp32> p{};
    p.s = me().s;
    p.num_tokens = tokens();
    p.split = ep::split_rows(ep::reply_steps_of(p.s), tokens(), warps_);
    p.reply = me().window + window.combine_buffer;
    p.count = me().in_window(window.combine_count);
    p.counters = me().counters();
    p.rounds = me().rounds();
    p.send_slots = me().in_local<std::int32_t>(local.send_slots);
    p.router_weights = {nullptr, p.s.top_k};
    p.output = {me().out, p.s.hidden};
    return p;
  }

 private:
  const exchange_memory& of_rank(int rank) const { return all_[static_cast<std::size_t>(rank)]; }
  const exchange_memory& me() const { return of_rank(rank_); }
  int tokens() const { return setting_.of_rank(setting_.tokens, rank_); }

  const exchange_setting& setting_;
  const std::vector<exchange_memory>& all_;
  int rank_, warps_;
};

}  // namespace baton::checks
