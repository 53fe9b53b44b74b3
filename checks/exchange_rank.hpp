#pragma once
// One warp of one rank of the exchange: the four kernels of the library, round after round, and the same once
// more on a second communicator. The experts are the identity, so each token must come back as it was sent.
#include "checks/exchange_context.hpp"
#include "kernels/ep/per_expert/creation.hpp"
#include "kernels/ep/per_expert/select.hpp"

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
      launch("dispatch_async", [&] {
        if (setting_.has_network())
          dispatch_async<peer_puts>(round);
        else
          dispatch_async<peer_stores>(round);
      });
      launch("dispatch_wait", [&] { ep::dispatch_wait_kernel<Arrival>::run(x_, end().dispatch_wait()); });
      if (!setting_.combines) continue;
      if (me().s.is_fp8() || setting_.spoils_source == x_.rank()) experts(round);
      launch("combine_async", [&] {
        if (setting_.has_network())
          ep::combine_async_kernel<Arrival>::run(x_, replies_by_put());
        else
          ep::combine_async_kernel<Arrival>::run(x_, end().combine_async(outputs()));
      });
      const ep::store_fp32 store{me().out, me().s.hidden};
      launch("combine_wait", [&] {
        ep::combine_wait_kernel<Arrival>::run(x_, end().combine_wait(tokens(), nullptr, store));
      });
      compare(round);
    }
  }

  template <class Window>
  void dispatch_async(int round) {
    const auto p = end().template dispatch_async<Window>(sent(round));
    if (me().s.is_fp8())
      ep::dispatch_async_kernel<ep::fp8_tokens, Arrival>::run(x_, p);
    else
      ep::dispatch_async_kernel<ep::bf16_tokens, Arrival>::run(x_, p);
  }
  ep::combine_async_params<peer_puts> replies_by_put() const {
    auto p = end().template combine_async<peer_puts>(outputs());
    if (setting_.shares_send_buffer) p.reply.send_buffer = me().window + ep::send_layout{me().s}.dispatch;
    return p;
  }
  template <class Kernel>
  void launch(site name, Kernel kernel) {
    x_.begin_kernel(name);
    kernel();
    x_.next_kernel();
  }

  const exchange_memory& me() const { return x_.mine().now; }
  ep::endpoint end() const {
    const std::vector<exchange_memory>& all = world_.lives[x_.mine().life];
    ep::endpoint e{me().s, {}, me().local, x_.num_blocks() * x_.num_warps(), setting_.p2p_group_size};
    for (std::size_t rank = 0; rank < all.size(); ++rank) e.windows.at[rank] = all[rank].window;
    return e;
  }
  ep::round_input sent(int round) const {
    const int first = round * tokens();
    return {me().tokens + first * me().s.hidden, me().topk_idx + first * me().s.top_k, tokens(), {}};
  }
  /// The experts' outputs: the received rows, as values.
  const bfloat16* outputs() const {
    return me().s.is_fp8() ? me().expert_output : end().template own<bfloat16>(&ep::local_layout::tokens);
  }
  void experts(int round) {
    if (x_.block() == 0 && x_.warp() == 0 && !x_.gave_up()) {
      const ep::dispatch_wait_params p = end().dispatch_wait();
      for (int e = 0; me().s.is_fp8() && e < me().s.num_local_experts(x_.rank()); ++e)
        for (int i = 0; i < host_.read(p.row_counts + e); ++i) decode(p, host_.read(p.row_offsets + e) + i);
      const bool receives = host_.read(p.row_offsets + me().s.num_local_experts(x_.rank())) > 0;
      if (setting_.spoils_source == x_.rank() && receives) spoil(p.sources, round);
    }
    x_.next_kernel();
  }
  void decode(const ep::dispatch_wait_params& p, int row) {
    for (int i = 0; i < p.s.hidden; ++i) {
      const auto bits = std::to_integer<std::uint8_t>(host_.read(p.tokens + row * p.s.hidden + i));
      const float scale =
          host_.read(reinterpret_cast<const float*>(p.scales) + i / 128 * p.s.max_rows() + row);
      host_.write(me().expert_output + row * p.s.hidden + i,
                  bfloat16{static_cast<float>(float8_e4m3::from_bits(bits)) * scale});
    }
  }
  void spoil(source_info* first, int round) {
    source_info source = host_.read(first);
    world_.spoilt.insert({x_.mine().life, round, source.rank, source.token});
    x_.mine().is_spoilt = true;
    source.token = me().s.max_tokens + 5;
    host_.write(first, source);
  }
  int tokens() const { return setting_.of_rank(setting_.tokens, x_.rank()); }

  /// What the caller does when the round is over: an error, or results that are right.
  void compare(int round) {
    if (x_.block() == 0 && x_.warp() == 0) {
      if (!x_.gave_up()) expect_tokens(round);
      if (!x_.gave_up()) expect_errors(round);
      program_.require(!x_.mine().is_spoilt || x_.gave_up(), "a row that cannot be sent back is refused");
      if (setting_.tally != nullptr) ++(x_.gave_up() ? setting_.tally->gave_up : setting_.tally->exact);
    }
    x_.next_kernel();
  }
  /// Every token as often as it was sent: not where its id is no expert's, nor where the expert's place is full.
  void expect_tokens(int round) {
    const bfloat16* sent = me().tokens + round * tokens() * me().s.hidden;
    std::vector<int> copies(static_cast<std::size_t>(setting_.experts));
    bool right = true;
    for (int token = 0; token < tokens(); ++token) {
      int replies = 0;
      for (int k = 0; k < setting_.top_k; ++k) {
        const std::int32_t id = setting_.id_of(x_.rank(), round, token * setting_.top_k + k);
        if (id < 0 || id >= setting_.experts) continue;
        replies += copies[static_cast<std::size_t>(id)]++ < me().s.max_tokens ? 1 : 0;
      }
      right = right && !world_.spoilt.contains({x_.mine().life, round, x_.rank(), token});
      for (int i = token * me().s.hidden; i < (token + 1) * me().s.hidden; ++i)
        right = right && x_.read(me().out + i) == static_cast<float>(replies) * static_cast<float>(sent[i]);
    }
    program_.require(right, "a rank that did not give up has every token back as it was sent");
  }
  /// The first id that is no expert's, of all rounds.
  void expect_errors(int round) {
    std::uint64_t bad_id = ep::device_errors::none_found;
    for (int i = 0; i < (round + 1) * tokens() * setting_.top_k; ++i) {
      const int place = i % (tokens() * setting_.top_k);
      const std::int32_t id = setting_.id_of(x_.rank(), i / (tokens() * setting_.top_k), place);
      if (id != -1 && (id < 0 || id >= setting_.experts))
        bad_id = std::min(bad_id, static_cast<std::uint64_t>(place) << 32 | static_cast<std::uint32_t>(id));
    }
    const ep::device_errors found = x_.read(end().errors());
    program_.require(found.first_bad_id == bad_id, "the first id that is no expert's is noted");
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

  /// For ep::make_ready, and what comes before it.
  void fill(void* at, unsigned char byte, std::size_t bytes) const {
    for (std::size_t i = 0; i < bytes / 4; ++i)
      host_.write(static_cast<std::uint32_t*>(at) + i, 0x01010101u * byte);
  }
  struct creating_host {
    exchange_rank& rank;
    void fill(void* at, unsigned char byte, std::size_t bytes) const { rank.fill(at, byte, bytes); }
    template <class Step>
    void together(Step step) const {
      step();
      if (rank.setting_.then.meets_at_the_end) rank.meet(2);
    }
  };

  /// As expert_parallel::create does it: zeroed memory, everybody learns where it is, then what the library shares.
  void create_anew() {
    if (x_.block() == 0 && x_.warp() == 0) {
      const comeback& how = setting_.then;
      const exchange_memory& m = world_.lives[1][static_cast<std::size_t>(x_.rank())];
      const ep::window_layout window{m.s};
      const std::size_t words = window.bytes - window.dispatch_count;
      if (how.in_place && how.meets_first) meet(0);
      if (how.is_renewed) {
        fill(m.counters().words, 0, 4 * static_cast<std::size_t>(m.counters().total_size(m.s.num_pairs())));
        fill(m.rounds(), 0, sizeof(ep::round_counters));
        if (how.renews_words) fill(m.in_window(window.dispatch_count), 0, words);
      }
      if (!how.in_place) meet(1);
      x_.mine().life = 1;
      x_.mine().now = m;
      const arrival_policy words_of =
          how.is_renewed && how.renews_words ? setting_.policy : arrival_policy::epoch;
      ep::make_ready(end(), words_of, creating_host{*this});
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
