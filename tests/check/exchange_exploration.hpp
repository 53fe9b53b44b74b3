#pragma once
// The four kernels of the exchange, as they are in the product, in every schedule: tiny sizes, rounds in a row
// on the same buffers. The experts are the identity, so each token must come back as it was sent.
#include <vector>

#include "checks/weakened_context.hpp"
#include "kernels/ep/select.hpp"
#include "sim/check.hpp"

namespace baton {

struct exchange_setting {
  int ranks = 2;
  std::vector<int> blocks = {1, 1};  // of each rank's kernels
  int warps = 1;
  int experts = 2;
  int top_k = 1;
  int tokens = 1;  // of each rank
  int rounds = 3;
  bool is_blind = false;  // planted bug: kernels run on after their rank gave up
};

/// One rank's memory and what its kernels are given.
struct exchange_memory {
  ep::shape s;
  std::byte* window;
  std::byte* local;
  const bfloat16* tokens;        // [rounds, tokens, hidden]
  const std::int32_t* topk_idx;  // [rounds, tokens, top_k]
  float* out;                    // [tokens, hidden]
};

/// Tokens differ in every round and rank; experts are spread so that some rank gets nothing now and then.
inline exchange_memory make_exchange_memory(check::program& p, const exchange_setting& e, int rank,
                                            std::uint64_t idle) {
  constexpr int hidden = 8;
  exchange_memory m;
  m.s = {.num_experts = e.experts,
         .num_ranks = e.ranks,
         .rank = rank,
         .top_k = e.top_k,
         .hidden = hidden,
         .max_tokens = e.tokens};
  const ep::window_layout window{m.s};
  const ep::local_layout local{m.s};
  const std::string of_rank = " of rank " + std::to_string(rank);
  m.window = p.allocate<std::byte>(window.bytes, "window" + of_rank);
  m.local = p.allocate<std::byte>(local.bytes, "local memory" + of_rank);
  const auto values = static_cast<std::size_t>(e.rounds * e.tokens * hidden);
  auto* tokens = p.allocate<bfloat16>(values, "tokens" + of_rank);
  auto* topk_idx =
      p.allocate<std::int32_t>(static_cast<std::size_t>(e.rounds * e.tokens * e.top_k), "ids" + of_rank);
  for (std::size_t i = 0; i < values; ++i)
    tokens[i] = bfloat16{static_cast<float>(rank * 100 + static_cast<int>(i))};
  for (int i = 0; i < e.rounds * e.tokens * e.top_k; ++i)
    topk_idx[i] = (i / e.top_k + i % e.top_k + rank) % e.experts;
  m.tokens = tokens;
  m.topk_idx = topk_idx;
  m.out = p.allocate<float>(static_cast<std::size_t>(e.tokens * hidden), "result" + of_rank);
  auto* words = reinterpret_cast<std::uint64_t*>(m.window + window.dispatch_count);
  auto* replies = reinterpret_cast<std::uint64_t*>(m.window + window.combine_count);
  for (int i = 0; i < m.s.num_pairs(); ++i) words[i] = replies[i] = idle;
  const auto pairs = static_cast<std::size_t>(m.s.num_pairs());
  p.name(words, "dispatch word" + of_rank, pairs);
  p.name(replies, "combine word" + of_rank, pairs);
  p.name(reinterpret_cast<std::int32_t*>(m.local + local.counters), "counter" + of_rank,
         static_cast<std::size_t>(ep_local_sync_counters::total_size(m.s.num_pairs())));
  return m;
}

/// A rank of one warp whose waits all give up once one has, as the abort word makes them.
template <class Context>
class giving_up : public Context {
 public:
  giving_up(const Context& x, bool is_blind) : Context{x}, is_blind_{is_blind} {}
  bool gave_up() const { return gave_up_; }
  /// Blind: the planted bug, kernels that do not look at the abort word.
  bool has_given_up() const { return gave_up_ && !is_blind_; }

  template <order Order, scope Scope, class Word, class Done>
  bool wait(const typename Context::template lanes<Word*>& words, Done done, const wait_site& where,
            typename Context::template lanes<std::remove_const_t<Word>>& seen) {
    gave_up_ = gave_up_ || !Context::template wait<Order, Scope>(words, done, where, seen);
    return !gave_up_;
  }

 private:
  bool gave_up_ = false;
  bool is_blind_;
};

/// The kernels of one rank, round after round, on one warp.
template <class Arrival, class X>
class exchange_rank {
 public:
  exchange_rank(X& x, check::program& p, const exchange_setting& e, const std::vector<exchange_memory>& all)
      : x_{x}, program_{p}, setting_{e}, all_{all}, me_{all[static_cast<std::size_t>(x.rank())]} {}

  void run() {
    for (int round = 0; round < setting_.rounds; ++round) {
      launch([&] { ep::dispatch_async_kernel<ep::bf16_tokens, Arrival>::run(x_, dispatch_async(round)); });
      launch([&] { ep::dispatch_wait_kernel<Arrival>::run(x_, dispatch_wait()); });
      launch([&] { ep::combine_async_kernel<Arrival>::run(x_, combine_async()); });
      launch([&] { ep::combine_wait_kernel<Arrival>::run(x_, combine_wait()); });
      launch([&] { compare(round); });
    }
  }

 private:
  template <class Kernel>
  void launch(Kernel kernel) {
    kernel();
    x_.next_kernel();
  }

  int warps() const { return x_.num_blocks() * x_.num_warps(); }
  template <class T>
  T* mine(std::size_t offset) const {
    return reinterpret_cast<T*>(me_.local + offset);
  }
  ep_local_sync_counters counters() const { return {mine<std::int32_t>(local_.counters), me_.s.num_pairs()}; }
  std::uint64_t* words(int rank, std::size_t offset) const {
    return reinterpret_cast<std::uint64_t*>(all_[static_cast<std::size_t>(rank)].window + offset);
  }

  ep::dispatch_async_params<> dispatch_async(int round) const {
    ep::dispatch_async_params<> p{};
    p.s = me_.s;
    p.tokens = me_.tokens + round * setting_.tokens * me_.s.hidden;
    p.topk_idx = me_.topk_idx + round * setting_.tokens * setting_.top_k;
    p.num_tokens = setting_.tokens;
    p.split = ep::split_rows(ep::steps_of(me_.s), setting_.tokens, warps());
    for (int rank = 0; rank < setting_.ranks; ++rank) {
      p.receive.at[rank] = all_[static_cast<std::size_t>(rank)].window + window_.dispatch_buffer;
      p.count.at[rank] = words(rank, window_.dispatch_count);
    }
    p.counters = counters();
    p.send_slots = mine<std::int32_t>(local_.send_slots);
    p.rounds = mine<ep::round_counters>(local_.rounds);
    p.errors = mine<ep::device_errors>(local_.errors);
    return p;
  }

  ep::dispatch_wait_params dispatch_wait() const {
    ep::dispatch_wait_params p{};
    p.s = me_.s;
    p.receive = me_.window + window_.dispatch_buffer;
    p.count = words(x_.rank(), window_.dispatch_count);
    p.counters = counters();
    p.rounds = mine<ep::round_counters>(local_.rounds);
    p.tokens = mine<std::byte>(local_.tokens);
    p.scales = mine<float>(local_.scales);
    p.row_offsets = mine<std::int32_t>(local_.row_offsets);
    p.row_counts = mine<std::int32_t>(local_.row_counts);
    p.expert_ids = mine<std::int32_t>(local_.expert_ids);
    p.sources = mine<source_info>(local_.sources);
    return p;
  }

  ep::combine_async_params combine_async() const {
    ep::combine_async_params p{};
    p.s = me_.s;
    p.expert_output = mine<bfloat16>(local_.tokens);
    p.sources = mine<source_info>(local_.sources);
    for (int rank = 0; rank < setting_.ranks; ++rank) {
      p.reply.at[rank] = all_[static_cast<std::size_t>(rank)].window + window_.combine_buffer;
      p.count.at[rank] = words(rank, window_.combine_count);
    }
    p.counters = counters();
    p.rounds = mine<ep::round_counters>(local_.rounds);
    p.errors = mine<ep::device_errors>(local_.errors);
    return p;
  }

  ep::combine_wait_params<ep::store_fp32> combine_wait() const {
    ep::combine_wait_params<ep::store_fp32> p{};
    p.s = me_.s;
    p.num_tokens = setting_.tokens;
    p.split = ep::split_rows(ep::reply_steps_of(me_.s), setting_.tokens, warps());
    p.reply = me_.window + window_.combine_buffer;
    p.count = words(x_.rank(), window_.combine_count);
    p.counters = counters();
    p.rounds = mine<ep::round_counters>(local_.rounds);
    p.send_slots = mine<std::int32_t>(local_.send_slots);
    p.router_weights = {nullptr, setting_.top_k};
    p.output = {me_.out, me_.s.hidden};
    return p;
  }

  void compare(int round) {
    if (x_.block() != 0 || x_.warp() != 0) return;
    const bfloat16* sent = me_.tokens + round * setting_.tokens * me_.s.hidden;
    for (int i = 0; i < setting_.tokens * me_.s.hidden; ++i) {
      const float expected = static_cast<float>(setting_.top_k) * static_cast<float>(sent[i]);
      const bool right = x_.gave_up() || x_.read(me_.out + i) == expected;
      program_.require(right, "every token comes back as it was sent");
    }
  }

  X& x_;
  check::program& program_;
  const exchange_setting& setting_;
  const std::vector<exchange_memory>& all_;
  const exchange_memory& me_;
  ep::window_layout window_{me_.s};
  ep::local_layout local_{me_.s};
};

template <class Arrival, weakening Weakening = weakening::none>
check::result check_exchange(const exchange_setting& e, check::bounds limits = {}) {
  using mutant = giving_up<weakened<check::context, Weakening>>;
  return check::explore(limits, [&](check::program& p) {
    const auto all = std::make_shared<std::vector<exchange_memory>>();
    for (int rank = 0; rank < e.ranks; ++rank)
      all->push_back(make_exchange_memory(p, e, rank, Arrival::idle));
    p.shared_memory(ep::dispatch_shared::bytes(e.experts) + 4096);
    for (int rank = 0; rank < e.ranks; ++rank) {
      for (int i = 0; i < e.blocks[static_cast<std::size_t>(rank)] * e.warps; ++i) {
        p.spawn(rank, i / e.warps, i % e.warps, [all, &p, &e](check::context& x) {
          mutant mine{weakened<check::context, Weakening>{x}, e.is_blind};
          exchange_rank<Arrival, mutant>{mine, p, e, *all}.run();
        });
      }
    }
  });
}

}  // namespace baton
