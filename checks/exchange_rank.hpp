#pragma once
// One warp of one rank of the exchange: the four kernels of the library, round after round, and the same once
// more on a second communicator. The experts are the identity, so each token must come back as it was sent.
#include "checks/exchange_context.hpp"
#include "kernels/ep/endpoint.hpp"
#include "kernels/ep/select.hpp"

namespace baton::checks {

template <class Arrival>
class exchange_rank {
 public:
  exchange_rank(exchange_context& x, check::program& p, const exchange_setting& e, exchange_world& w)
      : x_{x}, host_{x}, program_{p}, setting_{e}, world_{w} {}

  void run() {
    rounds();
    if (!setting_.then.happens) return;
    create_anew();
    rounds();
  }

 private:
  void rounds() {
    for (int round = 0; round < setting_.rounds; ++round) {
      const bool late = setting_.late == x_.rank() && setting_.late_round == round && x_.mine().life == 0;
      if (late) wait_until_somebody_gave_up();
      launch(false, [&] {
        ep::dispatch_async_kernel<ep::bf16_tokens, Arrival>::run(x_, end().dispatch_async(sent(round)));
      });
      launch(true, [&] { ep::dispatch_wait_kernel<Arrival>::run(x_, end().dispatch_wait()); });
      if (setting_.bug == exchange_bug::no_combine) continue;
      launch(false, [&] { ep::combine_async_kernel<Arrival>::run(x_, end().combine_async(outputs())); });
      const ep::store_fp32 store{me().out, me().s.hidden};
      launch(true, [&] {
        ep::combine_wait_kernel<Arrival>::run(x_, end().combine_wait(tokens(), nullptr, store));
      });
      compare(round);
    }
  }

  template <class Kernel>
  void launch(bool waits, Kernel kernel) {
    x_.begin_kernel(waits);
    kernel();
    x_.next_kernel();
  }

  const exchange_memory& me() const { return x_.mine().now; }
  ep::endpoint end() const {
    const std::vector<exchange_memory>& all = world_.lives[x_.mine().life];
    ep::endpoint e{me().s, {}, me().local, x_.num_blocks() * x_.num_warps()};
    for (std::size_t rank = 0; rank < all.size(); ++rank) e.windows.at[rank] = all[rank].window;
    return e;
  }
  ep::round_input sent(int round) const {
    const int first = round * tokens();
    return {me().tokens + first * me().s.hidden, me().topk_idx + first * me().s.top_k, tokens(), {}};
  }
  /// The experts' outputs: the received rows as they are.
  const bfloat16* outputs() const { return end().template own<bfloat16>(&ep::local_layout::tokens); }
  int tokens() const { return setting_.of_rank(setting_.tokens, x_.rank()); }

  /// What the caller does when the round is over: an error, or results that are right.
  void compare(int round) {
    if (x_.block() == 0 && x_.warp() == 0) {
      const bfloat16* sent = me().tokens + round * tokens() * me().s.hidden;
      bool right = true;
      for (int i = 0; i < tokens() * me().s.hidden && !x_.gave_up(); ++i)
        right = right &&
                x_.read(me().out + i) == static_cast<float>(setting_.top_k) * static_cast<float>(sent[i]);
      program_.require(right, "a rank that did not give up has every token back as it was sent");
      if (setting_.tally != nullptr) ++(x_.gave_up() ? setting_.tally->gave_up : setting_.tally->exact);
    }
    x_.next_kernel();
  }

  void wait_until_somebody_gave_up() {
    check::context::lanes<std::uint32_t*> words{};
    check::context::lanes<std::uint32_t> seen;
    words[0] = world_.somebody_gave_up;
    host_.wait<order::relaxed, scope::system>(
        words, [](int, std::uint32_t value) { return value != 0; }, {.where = "test"}, seen);
  }

  /// All ranks' hosts: nobody leaves before everybody has come.
  void meet(int which) {
    host_.store<order::release, scope::system>(world_.met[which] + x_.rank(), std::uint64_t{1});
    check::context::lanes<std::uint64_t*> words{};
    check::context::lanes<std::uint64_t> seen;
    for (int rank = 0; rank < setting_.ranks; ++rank) words[rank] = world_.met[which] + rank;
    host_.wait<order::acquire, scope::system>(
        words, [](int, std::uint64_t value) { return value != 0; }, {.where = "test"}, seen);
  }

  void fill(void* at, std::size_t bytes, std::uint32_t value) const {
    for (std::size_t i = 0; i < bytes / 4; ++i) host_.write(static_cast<std::uint32_t*>(at) + i, value);
  }

  /// As expert_parallel::create does it: zeroed memory, everybody learns where it is, idle words, everybody is ready.
  void create_anew() {
    if (x_.block() == 0 && x_.warp() == 0) {
      const comeback& how = setting_.then;
      const exchange_memory& m = world_.lives[1][static_cast<std::size_t>(x_.rank())];
      const ep::window_layout window{m.s};
      const std::size_t words = window.bytes - window.dispatch_count;
      if (how.in_place && how.meets_first) meet(0);
      if (how.is_renewed) {
        fill(m.counters().words, 4 * static_cast<std::size_t>(m.counters().total_size(m.s.num_pairs())), 0);
        fill(m.rounds(), sizeof(ep::round_counters), 0);
        if (how.renews_words) fill(m.in_window(window.dispatch_count), words, 0);
      }
      if (!how.in_place) meet(1);
      if (how.is_renewed && how.renews_words && setting_.policy == arrival_policy::sentinel)
        fill(m.in_window(window.dispatch_count), words, ~0u);
      if (how.meets_at_the_end) meet(2);
      x_.mine().life = 1;
      x_.mine().now = m;
      x_.mine().gave_up = false;
    }
    x_.next_kernel();
  }

  exchange_context& x_;
  const check::context& host_;  // the same warp as its rank's host, whom no bug and no death befalls
  check::program& program_;
  const exchange_setting& setting_;
  exchange_world& world_;
};

}  // namespace baton::checks
