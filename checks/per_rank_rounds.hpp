#pragma once
// Rounds of layout per_rank in the checker, however tokens travel. `Kernels` say how:
//
//   setting                              an exchange_setting, or one with more
//   context                              an exchange_context, or one that does more
//   endpoint                             of a rank
//   window_bytes, local_bytes(setting, shape)
//   end(setting, shape)                  without memory
//   name(program, endpoint, whose)       cells of the window and of the rank's own memory
//   dispatch(x, end, limits, input), combine(x, end, limits, input, store)
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/add_weighted.hpp"
#include "checks/exchange_context.hpp"
#include "kernels/ep/late_weights/kernel.hpp"
#include "kernels/ep/outputs.hpp"
#include "kernels/ep/per_rank/launch.hpp"

namespace baton::checks {

using ep::per_rank::half;

/// What a rank's kernels are given beside the memory of exchange_world.
struct rank_inputs {
  const float* weights;  // [rounds, tokens, top_k]
  float* out;            // [rounds, tokens, hidden]
  bfloat16* returned;    // [max_rows, hidden]: what experts that find their rows make of them
};

/// Router weights, of which no two of a token are the same.
inline float weight_of(int rank, int round, int i, int top_k) {
  return static_cast<float>(1 << (i % top_k)) * ((i / top_k + rank + round) % 2 == 0 ? 1.0f : 0.5f);
}

/// Cells that lines and chunks have alike.
inline void name_own_memory(check::program& p, const ep::per_rank::endpoint& end, const std::string& whose) {
  const auto d = end.dispatch({}, 0, false);
  const auto tokens = static_cast<std::size_t>(end.s.max_tokens),
             ranks = static_cast<std::size_t>(end.s.num_ranks);
  p.name(&d.epochs->dispatched, "round dispatched" + whose);
  p.name(&d.epochs->combined, "round combined" + whose);
  p.name(d.token_counts, "token counts" + whose, ranks);
  p.name(d.rank_sets, "rank sets" + whose, tokens);
  p.name(d.choices, "choices" + whose, ranks * tokens);
  p.name(d.entries, "entries" + whose, ranks * tokens * static_cast<std::size_t>(end.s.top_k));
  if (!end.s.by_token())
    p.name(d.rows, "rows" + whose, static_cast<std::size_t>(end.s.max_rows() * end.s.payload_bytes()));
}

/// A line as a cell, for names.
struct line_cell {
  std::byte bytes[line_bytes];
};

template <class Kernels>
struct per_rank_world {
  using setting = typename Kernels::setting;
  using endpoint = typename Kernels::endpoint;

  exchange_world base;
  std::vector<rank_inputs> inputs;

  endpoint end_of(const setting& e, int rank) const {
    const exchange_memory& mine = base.lives[0][static_cast<std::size_t>(rank)];
    endpoint end = Kernels::end(e, mine.s);
    end.local = mine.local;
    for (std::size_t r = 0; r < base.lives[0].size(); ++r) end.windows.at[r] = base.lives[0][r].window;
    return end;
  }

  static std::shared_ptr<per_rank_world> make(check::program& p, const setting& e) {
    auto w = std::make_shared<per_rank_world>();
    for (int rank = 0; rank < e.ranks; ++rank) w->add_rank(p, e, rank);
    for (int rank = 0; rank < e.ranks; ++rank) {
      const endpoint end = w->end_of(e, rank);
      *end.errors() = {ep::device_errors::none_found};
      *end.epochs() = {e.rounds_before, e.rounds_before, e.is_absent(rank) ? 0 : e.absent};
      const std::string whose = " of rank " + std::to_string(rank);
      name_own_memory(p, end, whose);
      Kernels::name(p, end, whose);
    }
    if (e.has_network()) {
      w->base.network = std::make_unique<far_network>(p, e.ranks, e.carriers);
      w->base.network->fences_are_of_warps = true;
    }
    w->base.alive = p.allocate<std::uint32_t>(1, "nothing happens");
    w->base.somebody_gave_up = p.allocate<std::uint32_t>(1, "somebody gave up");
    return w;
  }

 private:
  void add_rank(check::program& p, const setting& e, int rank) {
    const std::string whose = " of rank " + std::to_string(rank);
    exchange_memory m{};
    m.s = shape_of(e, rank);
    m.window_bytes = Kernels::window_bytes(e, m.s);
    m.window = p.allocate<std::byte>(m.window_bytes, "window" + whose);
    m.local = p.allocate<std::byte>(Kernels::local_bytes(e, m.s), "local memory" + whose);
    make_inputs(p, e, 0, m);
    const int tokens = e.of_rank(e.tokens, rank), of_round = std::max(1, tokens * e.top_k),
              choices = e.rounds * tokens * e.top_k;
    auto* weights = p.allocate<float>(static_cast<std::size_t>(choices), "weights" + whose);
    for (int i = 0; i < choices; ++i) weights[i] = weight_of(rank, i / of_round, i % of_round, e.top_k);
    auto* out = p.allocate<float>(static_cast<std::size_t>(e.rounds * tokens * e.hidden), "results" + whose);
    const int returned = m.s.by_token() ? m.s.max_rows() * m.s.hidden : 1;
    inputs.push_back(
        {weights, out, p.allocate<bfloat16>(static_cast<std::size_t>(returned), "outputs" + whose)});
    base.lives[0].push_back(m);
    base.ranks.push_back({m});
  }
};

/// One warp of one rank: its rounds, and then, with the whole rank, what came of them.
template <class Kernels>
class per_rank_rank {
 public:
  using setting = typename Kernels::setting;
  using context = typename Kernels::context;

  per_rank_rank(context& x, check::program& p, const setting& e, const per_rank_world<Kernels>& w)
      : x_{x},
        program_{p},
        setting_{e},
        end_{w.end_of(e, x.rank())},
        inputs_{w.inputs[static_cast<std::size_t>(x.rank())]} {}

  void run() {
    for (int round = 0; round < setting_.rounds; ++round) {
      if (setting_.is_apart) {
        dispatch(round, half::send);
        dispatch(round, half::receive);
        combine(round, half::send);
        combine(round, half::receive);
      } else {
        dispatch(round, half::both);
        combine(round, half::both);
      }
    }
    x_.next_kernel();
    if (x_.block() == 0 && x_.warp() == 0) compare();
  }

 private:
  int tokens() const { return setting_.of_rank(setting_.tokens, x_.rank()); }
  ep::per_rank::launch_limits limits(half which) const {
    return {.blocks = x_.num_blocks(),
            .threads = x_.num_warps() * warp_lanes,
            .which = which,
            .threads_are_asked_for = true};
  }

  void begin(site kernel) {
    x_.begin_kernel(kernel);
    if (!is_first_) x_.next_kernel_early();
    is_first_ = false;
  }
  void dispatch(int round, half which) {
    begin("dispatch");
    const int first = round * tokens();
    Kernels::dispatch(x_, end_, limits(which),
                      {x_.mine().now.tokens + first * end_.s.hidden,
                       x_.mine().now.topk_idx + first * end_.s.top_k,
                       setting_.late_weights ? nullptr : inputs_.weights + first * end_.s.top_k,
                       tokens(),
                       {}});
  }
  /// Experts that change nothing: rows that lie as their outputs do, or one warp's copies of tokens that lie once.
  const bfloat16* returned(half which) {
    const received_tokens got = end_.received();
    if (!end_.s.by_token()) return static_cast<const bfloat16*>(got.tokens);
    if (which == half::receive) return inputs_.returned;
    begin("experts");
    x_.await_dependencies();
    const int steps = end_.s.payload_bytes() / static_cast<int>(sizeof(vec16));
    for (int e = 0; x_.block() == 0 && x_.warp() == 0 && e < got.num_local_experts; ++e) {
      const int first = x_.read(got.row_offsets + e), behind = first + x_.read(got.row_counts + e);
      for (int row = first; row < behind; ++row) {
        const auto* token = reinterpret_cast<const vec16*>(static_cast<const std::byte*>(got.tokens) +
                                                           x_.read(got.token_rows + row) * got.row_bytes);
        auto* to = reinterpret_cast<vec16*>(inputs_.returned) + row * steps;
        x_.each(steps, [&](int i) { x_.write(to + i, x_.read(token + i)); });
      }
    }
    return inputs_.returned;
  }
  void combine(int round, half which) {
    const bfloat16* rows = returned(which);
    if (setting_.late_weights && which != half::receive) {
      begin("weights");
      ep::late_weights::kernel::run(
          x_, end_.weights({inputs_.weights + round * tokens() * end_.s.top_k, tokens()}));
    }
    begin("combine");
    Kernels::combine(x_, end_, limits(which), {rows, tokens()},
                     ep::store_fp32{inputs_.out + round * tokens() * end_.s.hidden, end_.s.hidden});
  }

  void compare() {
    if (setting_.tally != nullptr) ++(x_.gave_up() ? setting_.tally->gave_up : setting_.tally->exact);
    if (x_.gave_up()) return;
    bool right = true;
    for (int i = 0; i < setting_.rounds * tokens(); ++i) {
      const float factor = sum_of_weights(i / tokens(), i % tokens(),
                                          static_cast<float>(x_.mine().now.tokens[i * end_.s.hidden]));
      for (int h = 0; h < end_.s.hidden; ++h)
        right = right && x_.read(inputs_.out + i * end_.s.hidden + h) == factor;
    }
    program_.require(right, "a rank that did not give up has the sums of its tokens");
  }
  /// What a token of one value comes back as.
  float sum_of_weights(int round, int token, float value) const {
    float all = 0;
    for (int rank = 0; rank < setting_.ranks; ++rank) all += part_that_comes(round, token, value, rank);
    return all;
  }
  /// By a rank: its own, or with two levels what a forwarder's group has made.
  float part_that_comes(int round, int token, float value, int rank) const {
    const int size = setting_.p2p_group_size;
    const auto part_for = [&](int r, int taker) {
      const float part = part_of(round, token, value, r);
      return r == taker ? part : as_it_travels(part);
    };
    if (!setting_.two_levels || rank / size == x_.rank() / size) return part_for(rank, x_.rank());
    if (rank % size != x_.rank() % size) return 0;
    float group = 0;
    for (int r = rank / size * size; r < rank / size * size + size; ++r) group += part_for(r, rank);
    return as_it_travels(group);
  }
  float part_of(int round, int token, float value, int rank) const {
    float part = 0;
    for (int k = 0; k < setting_.top_k; ++k) {
      const int i = token * setting_.top_k + k, id = setting_.id_of(x_.rank(), round, i);
      if (id < 0 || id >= setting_.experts || end_.s.home(id).rank != rank || setting_.is_absent(rank))
        continue;
      part += weight_of(x_.rank(), round, i, setting_.top_k) * value;
    }
    return part;
  }
  /// Of a row of one value.
  float as_it_travels(float part) const {
    if (!setting_.fp8_sums) return static_cast<float>(bfloat16{part});
    const float scale = std::max(part, 1e-4f) / 448.0f;
    return rounded_product(static_cast<float>(float8_e4m3{part * (1.0f / scale)}), scale);
  }

  context& x_;
  check::program& program_;
  const setting& setting_;
  const typename Kernels::endpoint end_;
  const rank_inputs& inputs_;
  bool is_first_ = true;
};

/// One warp, to its end or its death.
template <class Kernels>
void live_per_rank(const check::context& x, check::program& p, const typename Kernels::setting& e,
                   per_rank_world<Kernels>& w) {
  typename Kernels::context mine{x, p, e, w.base};
  try {
    per_rank_rank<Kernels>{mine, p, e, w}.run();
    if (e.tally != nullptr) e.tally->longest_life = std::max(e.tally->longest_life, mine.steps());
  } catch (const rank_died&) {
    if (e.tally != nullptr) e.tally->died_at.insert(mine.steps());
  }
}

/// In every schedule. Kernels begin early: a warp's part of one begins when its part of the one before has ended, up to
/// await_dependencies().
template <class Kernels>
check::result explore_per_rank(const typename Kernels::setting& e, check::bounds limits) {
  limits.may_time_out = exchange_context::may_time_out;
  limits.looks = e.looks;
  return check::explore(limits, [&](check::program& p) {
    const auto world = per_rank_world<Kernels>::make(p, e);
    p.shared_memory(exchange_shared_bytes);
    p.kernels_begin_early();
    for (int rank = 0; rank < e.ranks; ++rank) {
      const int warps = e.of_rank(e.warps, rank);
      if (!e.runs(rank)) continue;
      for (int i = 0; i < e.of_rank(e.blocks, rank) * warps; ++i)
        p.spawn(rank, i / warps, i % warps, [world, &p, &e](const check::context& x) {
          live_per_rank<Kernels>(x, p, e, *world);
          if (world->base.network) world->base.network->end(x);
        });
      if (world->base.network) add_carriers(p, world->base, e, rank);
    }
  });
}

}  // namespace baton::checks
