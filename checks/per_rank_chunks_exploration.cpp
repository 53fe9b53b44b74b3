#include "checks/per_rank_chunks_exploration.hpp"

#include <array>

#include "checks/per_rank_rounds.hpp"
#include "kernels/ep/per_rank_chunks/combine.hpp"
#include "kernels/ep/per_rank_chunks/dispatch.hpp"
#include "kernels/ep/per_rank_chunks/grid.hpp"
#include "kernels/ep/per_rank_chunks/team_combine.hpp"

namespace baton::checks {
namespace {

namespace chunk_layout = ep::per_rank_chunks;

/// Where takes are drawn, whoever takes the next chunk or part is told one that was drawn for its warp: as if the warps had
/// come in one of the orders in which they may.
class chunk_context : public exchange_context {
 public:
  chunk_context(const check::context& x, check::program& p, const chunks_setting& e, exchange_world& w)
      : exchange_context{x, p, e, w}, draw_{e.draw} {}

  /// A kernel begins whose block takes what is counted at `next`: its first `senders` warps to send, all to receive, and those
  /// that send, if some do, to forward.
  void begin_takes(const std::uint32_t* next, int senders) {
    next_ = next;
    takers_ = {senders, num_warps(), senders > 0 ? senders : num_warps()};
    seen_ = {};
    ++kernel_;
  }

  template <order Order, scope Scope, class T>
  T fetch_add(T* p, std::type_identity_t<T> value) {
    if (draw_ == 0 || p < next_ || p >= next_ + takers_.size())
      return exchange_context::fetch_add<Order, Scope>(p, value);
    const auto which = static_cast<std::size_t>(p - next_);
    std::uint32_t& nth = seen_[which];
    while (taker(which, nth) != warp()) ++nth;
    const T taken = nth;
    nth = shifted(found(verbs::add, p), nth + 1);
    return taken;
  }

 private:
  int taker(std::size_t which, std::uint32_t nth) const {
    std::uint32_t h = 0;
    for (const std::uint32_t part : {draw_, static_cast<std::uint32_t>(8 * rank() + block()),
                                     2 * kernel_ + static_cast<std::uint32_t>(which), nth})
      h = (h ^ part) * 0x9e3779b1u, h ^= h >> 15;
    h = (h ^ h >> 16) * 0x7feb352du;  // or numbers that follow each other would fall to one warp
    h = (h ^ h >> 15) * 0x846ca68bu;
    h ^= h >> 16;
    return static_cast<int>(h % static_cast<std::uint32_t>(takers_[which]));
  }

  std::uint32_t draw_;
  const std::uint32_t* next_ = nullptr;
  std::uint32_t kernel_ = 0;
  std::array<int, 3> takers_{};
  std::array<std::uint32_t, 3> seen_{};  // numbers that this warp has passed, each drawn for somebody
};

struct chunk_kernels {
  using setting = chunks_setting;
  using context = chunk_context;
  using endpoint = chunk_layout::endpoint;

  static std::size_t window_bytes(const setting& e, const ep::shape& s) {
    const chunk_layout::cells window{s, e.chunks};
    if (e.two_levels) return chunk_layout::group_cells{s, window, e.p2p_group_size}.bytes;
    return e.has_network() ? chunk_layout::far_cells{s, window}.bytes : window.bytes;
  }
  static std::size_t local_bytes(const setting& e, const ep::shape& s) {
    if (e.two_levels) return chunk_layout::group_local_cells{s, e.chunks, e.p2p_group_size}.bytes;
    return chunk_layout::local_cells{s, e.chunks}.bytes;
  }
  static endpoint end(const setting& e, const ep::shape& s) {
    return {{s, {}, nullptr}, e.chunks, e.p2p_group_size, e.two_levels};
  }

  static void name(check::program& p, const endpoint& end, const std::string& whose) {
    name_window(p, end, whose);
    constexpr auto next = chunk_layout::combine_plan{}.next;
    if (end.s.rank == 0) p.name_shared(next.offset, sizeof(std::uint32_t), 1, "taken to send");
    if (end.s.rank == 0)
      p.name_shared(next.offset + sizeof(std::uint32_t), sizeof(std::uint32_t), 1, "taken to receive");
    if (end.s.rank == 0 && end.has_two_levels())
      p.name_shared(next.offset + 2 * sizeof(std::uint32_t), sizeof(std::uint32_t), 1, "taken to forward");
    const chunk_layout::cells window{end.s, end.settings};
    const auto d = end.dispatch({}, {}, false);
    const auto tiles = static_cast<std::size_t>(chunk_layout::num_tiles(d)),
               slots = tiles * static_cast<std::size_t>(window.expert_slots),
               tokens = static_cast<std::size_t>(end.s.num_ranks * end.s.max_tokens);
    p.name(d.choice_experts, "experts of choices" + whose, tokens * static_cast<std::size_t>(end.s.top_k));
    p.name(d.tile_words, "tile words" + whose, tiles);
    p.name(d.tile_bits, "tile bits" + whose, slots);
    p.name(d.tile_counts, "tile counts" + whose, slots / 4);
    p.name(d.tile_rows, "tile rows" + whose, slots);
    if (!end.has_two_levels()) return;
    const auto groups = end.with_two_levels(d).groups;
    const auto forwarded = static_cast<std::size_t>(groups.cells.groups * end.s.max_tokens);
    p.name(groups.wanted, "wanted" + whose, forwarded);
    p.name(groups.own_sums, "own sums of others" + whose, forwarded * static_cast<std::size_t>(end.s.hidden));
  }

  static void dispatch(chunk_context& x, const endpoint& end, const chunk_layout::launch_limits& limits,
                       const chunk_layout::round_input& in) {
    const auto grid = chunk_layout::grid_of_dispatch(end, limits);
    const chunk_layout::block_plan plan = chunk_layout::dispatch_plan(
        chunk_layout::cells{end.s, end.settings}, grid.roles, end.has_two_levels());
    x.begin_takes(plan.next(x), limits.which == half::both ? grid.roles.senders : grid.roles.warps());
    using kernel = chunk_layout::dispatch_kernel<ep::bf16_tokens>;
    const auto p = end.dispatch(in, grid.roles, limits.which != half::send);
    if (end.has_two_levels()) return kernel::run(x, end.with_two_levels(p));
    if (end.goes_beyond_group()) return kernel::run(x, end.with_far(p));
    kernel::run(x, p);
  }
  static void combine(chunk_context& x, const endpoint& end, const chunk_layout::launch_limits& limits,
                      const chunk_layout::combine_input& in, const ep::store_fp32& store) {
    if (chunk_layout::is_in_teams(end, limits)) {
      const auto teams = chunk_layout::grid_of_teams(end, limits).roles;
      const auto p = end.combine(in, {}, true, store, teams);
      return chunk_layout::team_combine_kernel<ep::store_fp32, 1>::run(x, p);
    }
    const auto grid = chunk_layout::grid_of_combine(end, limits);
    x.begin_takes(chunk_layout::combine_plan{}.next(x), grid.roles.senders);
    const auto p = end.combine(in, grid.roles, limits.which != half::send, store);
    if (end.has_two_levels()) return combine_far(x, end.with_two_levels(p));
    if (end.goes_beyond_group()) return combine_far(x, end.with_far(p));
    if (end.s.fp8_sums)
      return chunk_layout::combine_kernel<ep::store_fp32, token_format::blockwise_fp8>::run(x, p);
    chunk_layout::combine_kernel<ep::store_fp32>::run(x, p);
  }

 private:
  template <class Params>
  static void combine_far(chunk_context& x, const Params& p) {
    constexpr auto fp8 = token_format::blockwise_fp8;
    if (p.s.fp8_sums) return chunk_layout::combine_body<ep::store_fp32, fp8, Params>::run(x, p);
    chunk_layout::combine_body<ep::store_fp32, token_format::bf16, Params>::run(x, p);
  }

  static void name_window(check::program& p, const endpoint& end, const std::string& whose) {
    const chunk_layout::cells at{end.s, end.settings};
    std::byte* window = end.windows.at[end.s.rank];
    const auto name = [&]<class Cell>(const Cell*, std::size_t begin, std::size_t behind, const char* what) {
      p.name(reinterpret_cast<const Cell*>(window + begin), what + whose, (behind - begin) / sizeof(Cell));
    };
    constexpr const line_cell* lines = nullptr;
    constexpr const vec16* pieces = nullptr;
    constexpr const std::uint64_t* words = nullptr;
    const std::size_t odd_tokens = at.token_at(end.s, 1, 0, 0), odd_words = at.token_word_at(end.s, 1, 0, 0);
    name(lines, 0, at.tokens / 2, "even ids");
    name(lines, at.tokens / 2, at.tokens, "odd ids");
    name(pieces, at.tokens, odd_tokens, "even tokens");
    name(pieces, odd_tokens, at.token_words, "odd tokens");
    name(words, at.token_words, odd_words, "even token words");
    name(words, odd_words, 2 * odd_words - at.token_words, "odd token words");
    name(pieces, at.sums, at.sum_words, "sums");
    name(words, at.sum_words, at.bytes, "sum words");
    if (!end.goes_beyond_group()) return;
    const chunk_layout::far_cells far{end.s, at};
    name(words, far.id_words, far.sum_sends, "id words");
    name(pieces, far.sum_sends, far.bytes, "sums to put");
    if (!end.has_two_levels()) return;
    const chunk_layout::group_cells groups{end.s, at, end.p2p_group_size};
    const std::size_t odd_forwards = groups.forward_word_at(at, 1, 0, 0);
    name(words, groups.forward_words, odd_forwards, "even forward words");
    name(words, odd_forwards, groups.bytes, "odd forward words");
  }
};

}  // namespace

check::result check_per_rank_chunks(chunks_setting e, const check::bounds& limits) {
  if (e.draws == 0) return explore_per_rank<chunk_kernels>(e, limits);
  check::result all;
  all.complete = true;
  while (e.draw < e.draws && all.holds()) {
    ++e.draw;
    check::result one = explore_per_rank<chunk_kernels>(e, limits);
    one.executions += all.executions;
    one.cut += all.cut;
    one.steps += all.steps;
    one.seconds += all.seconds;
    one.longest = std::max(one.longest, all.longest);
    if (e.draw > 1) one.trace = all.trace;
    all = std::move(one);
  }
  return all;
}

}  // namespace baton::checks
