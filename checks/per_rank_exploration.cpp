#include "checks/per_rank_exploration.hpp"

#include "checks/exchange_context.hpp"
#include "kernels/ep/outputs.hpp"
#include "kernels/ep/per_rank/combine.hpp"
#include "kernels/ep/per_rank/dispatch.hpp"
#include "kernels/ep/per_rank/grid.hpp"

namespace baton::checks {
namespace {

namespace layout = ep::per_rank;
using layout::half;

/// What a rank's kernels are given beside the memory of exchange_world.
struct rank_inputs {
  const float* weights;  // [rounds, tokens, top_k]
  float* out;            // [rounds, tokens, hidden]
};

/// Router weights, of which no two of a token are the same.
float weight_of(int rank, int round, int i, int top_k) {
  return static_cast<float>(1 << (i % top_k)) * ((i / top_k + rank + round) % 2 == 0 ? 1.0f : 0.5f);
}

void name_lines(check::program& p, const exchange_memory& m, const std::string& whose) {
  struct line_cell {
    std::byte bytes[line_bytes];
  };
  const layout::cells window{m.s};
  const std::size_t tokens = window.token_at(m.s, 0, 0, 0), sums = window.sum_at(m.s, 0, 0);
  const auto name = [&](std::size_t begin, std::size_t end, const char* what) {
    p.name(reinterpret_cast<const line_cell*>(m.window + begin), what + whose, (end - begin) / line_bytes);
  };
  name(0, tokens / 2, "even ids");
  name(tokens / 2, tokens, "odd ids");
  name(tokens, (tokens + sums) / 2, "even tokens");
  name((tokens + sums) / 2, sums, "odd tokens");
  name(sums, window.bytes(), "sums");
}

void name_own_memory(check::program& p, const layout::endpoint& end, const std::string& whose) {
  const auto d = end.dispatch({}, 0, false);
  const auto tokens = static_cast<std::size_t>(end.s.max_tokens),
             ranks = static_cast<std::size_t>(end.s.num_ranks);
  p.name(&d.epochs->dispatched, "round dispatched" + whose);
  p.name(&d.epochs->combined, "round combined" + whose);
  p.name(d.token_counts, "token counts" + whose, ranks);
  p.name(d.rank_sets, "rank sets" + whose, tokens);
  p.name(d.choices, "choices" + whose, ranks * tokens);
  p.name(d.entries, "entries" + whose, ranks * tokens * static_cast<std::size_t>(end.s.top_k));
  p.name(d.rows, "rows" + whose, static_cast<std::size_t>(end.s.max_rows() * end.s.payload_bytes()));
}

struct per_rank_world {
  exchange_world base;
  std::vector<rank_inputs> inputs;

  layout::endpoint end_of(int rank) const {
    layout::endpoint end{base.lives[0][static_cast<std::size_t>(rank)].s, {}, nullptr};
    end.local = base.lives[0][static_cast<std::size_t>(rank)].local;
    for (std::size_t r = 0; r < base.lives[0].size(); ++r) end.windows.at[r] = base.lives[0][r].window;
    return end;
  }
};

std::shared_ptr<per_rank_world> make_per_rank_world(check::program& p, const exchange_setting& e) {
  auto w = std::make_shared<per_rank_world>();
  for (int rank = 0; rank < e.ranks; ++rank) {
    const std::string whose = " of rank " + std::to_string(rank);
    exchange_memory m{};
    m.s = shape_of(e, rank);
    m.window = p.allocate<std::byte>(layout::cells{m.s}.bytes(), "window" + whose);
    m.local = p.allocate<std::byte>(layout::local_cells{m.s}.bytes, "local memory" + whose);
    name_lines(p, m, whose);
    make_inputs(p, e, 0, m);
    const int tokens = e.of_rank(e.tokens, rank), choices = e.rounds * tokens * e.top_k;
    auto* weights = p.allocate<float>(static_cast<std::size_t>(choices), "weights" + whose);
    for (int i = 0; i < choices; ++i)
      weights[i] =
          weight_of(rank, i / std::max(1, tokens * e.top_k), i % std::max(1, tokens * e.top_k), e.top_k);
    auto* out = p.allocate<float>(static_cast<std::size_t>(e.rounds * tokens * e.hidden), "results" + whose);
    w->inputs.push_back({weights, out});
    w->base.lives[0].push_back(m);
    w->base.ranks.push_back({m});
  }
  for (int rank = 0; rank < e.ranks; ++rank) {
    const layout::endpoint end = w->end_of(rank);
    *end.errors() = {ep::device_errors::none_found};
    *end.epochs() = {e.rounds_before, e.rounds_before};
    name_own_memory(p, end, " of rank " + std::to_string(rank));
  }
  w->base.alive = p.allocate<std::uint32_t>(1, "nothing happens");
  w->base.somebody_gave_up = p.allocate<std::uint32_t>(1, "somebody gave up");
  return w;
}

/// One warp of one rank: its rounds, and then, with the whole rank, what came of them.
class per_rank_rank {
 public:
  per_rank_rank(exchange_context& x, check::program& p, const exchange_setting& e, const per_rank_world& w)
      : x_{x},
        program_{p},
        setting_{e},
        end_{w.end_of(x.rank())},
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
  layout::launch_limits limits(half which) const {
    return {x_.num_blocks(), x_.num_warps() * warp_lanes, which};
  }

  void begin(site kernel) {
    x_.begin_kernel(kernel);
    if (!is_first_) x_.next_kernel_early();
    is_first_ = false;
  }
  void dispatch(int round, half which) {
    begin("dispatch");
    const int first = round * tokens();
    const layout::round_input in{x_.mine().now.tokens + first * end_.s.hidden,
                                 x_.mine().now.topk_idx + first * end_.s.top_k,
                                 inputs_.weights + first * end_.s.top_k,
                                 tokens(),
                                 {}};
    const auto grid = layout::grid_of_dispatch(end_, limits(which), tokens());
    using kernel = layout::dispatch_kernel<ep::bf16_tokens>;
    kernel::run(x_, kernel::params{end_.dispatch(in, grid.senders, which != half::send)});
  }
  void combine(int round, half which) {
    begin("combine");
    const auto* rows = end_.own<bfloat16>(&layout::local_cells::tokens);  // experts change nothing
    const auto grid = layout::grid_of_combine(end_, limits(which), tokens());
    const ep::store_fp32 store{inputs_.out + round * tokens() * end_.s.hidden, end_.s.hidden};
    using kernel = layout::combine_kernel<ep::store_fp32>;
    kernel::run(x_, kernel::params{end_.combine<ep::store_fp32>({rows, tokens()}, grid.senders,
                                                                which != half::send, store)});
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
    for (int rank = 0; rank < setting_.ranks; ++rank) {
      float part = 0;
      for (int k = 0; k < setting_.top_k; ++k) {
        const int i = token * setting_.top_k + k, id = setting_.id_of(x_.rank(), round, i);
        if (id < 0 || id >= setting_.experts || end_.s.home(id).rank != rank) continue;
        part += weight_of(x_.rank(), round, i, setting_.top_k) * value;
      }
      all += rank == x_.rank() ? part : static_cast<float>(bfloat16{part});
    }
    return all;
  }

  exchange_context& x_;
  check::program& program_;
  const exchange_setting& setting_;
  const layout::endpoint end_;
  const rank_inputs& inputs_;
  bool is_first_ = true;
};

void live(const check::context& x, check::program& p, const exchange_setting& e, per_rank_world& w) {
  exchange_context mine{x, p, e, w.base};
  try {
    per_rank_rank{mine, p, e, w}.run();
    if (e.tally != nullptr) e.tally->longest_life = std::max(e.tally->longest_life, mine.steps());
  } catch (const rank_died&) {
    if (e.tally != nullptr) e.tally->died_at.insert(mine.steps());
  }
}

}  // namespace

check::result check_per_rank(const exchange_setting& e, check::bounds limits) {
  limits.may_time_out = exchange_context::may_time_out;
  limits.looks = e.looks;
  return check::explore(limits, [&](check::program& p) {
    const auto world = make_per_rank_world(p, e);
    p.shared_memory(exchange_shared_bytes);
    p.kernels_begin_early();
    for (int rank = 0; rank < e.ranks; ++rank) {
      const int warps = e.of_rank(e.warps, rank);
      for (int i = 0; i < e.of_rank(e.blocks, rank) * warps; ++i)
        p.spawn(rank, i / warps, i % warps,
                [world, &p, &e](const check::context& x) { live(x, p, e, *world); });
    }
  });
}

}  // namespace baton::checks
