#include "checks/per_rank_chunks_exploration.hpp"

#include <algorithm>
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
      : exchange_context{x, p, e, w}, draw_{e.draw}, all_orders_of_all_{e.all_orders_of_all} {}

  /// A kernel begins whose block takes what is counted at `next`: its first `senders` warps to send, all to receive, those
  /// that send, if some do, to forward; and whose blocks take together what is counted at `to_send` and `to_receive`.
  void begin_takes(const std::uint32_t* next, int senders, const std::uint32_t* to_send,
                   const std::uint32_t* to_receive = nullptr) {
    const int all = num_warps(), some = senders > 0 ? senders : all;
    counts_ = {{{next, senders},
                {next + 1, all},
                {next + 2, some},
                {to_send, senders, true},
                {to_receive, all, true}}};
    ++kernel_;
  }

  template <order Order, scope Scope, class T>
  T fetch_add(T* p, std::type_identity_t<T> value) {
    const auto at = std::ranges::find(counts_, static_cast<const void*>(p), &count::at);
    if (draw_ == 0 || at == counts_.end() || (at->of_all && all_orders_of_all_))
      return exchange_context::fetch_add<Order, Scope>(p, value);
    const int self = at->of_all ? block() * at->takers + warp() : warp();
    while (taker(*at, at->seen) != self) ++at->seen;
    const T taken = at->seen;
    at->seen = shifted(found(verbs::add, p), at->seen + 1);
    return taken;
  }

 private:
  /// `takers` are the first warps of each block.
  struct count {
    const void* at = nullptr;
    int takers = 0;
    bool of_all = false;
    std::uint32_t seen = 0;  // numbers that this warp has passed, each drawn for somebody
  };

  int taker(const count& c, std::uint32_t nth) const {
    const int of_block = c.of_all ? 0 : block(), takers = c.of_all ? c.takers * num_blocks() : c.takers;
    const auto which = static_cast<std::uint32_t>(&c - counts_.data());
    std::uint32_t h = 0;
    for (const std::uint32_t part :
         {draw_, static_cast<std::uint32_t>(8 * rank() + of_block), 2 * kernel_ + which, nth})
      h = (h ^ part) * 0x9e3779b1u, h ^= h >> 15;
    h = (h ^ h >> 16) * 0x7feb352du;  // or numbers that follow each other would fall to one warp
    h = (h ^ h >> 15) * 0x846ca68bu;
    h ^= h >> 16;
    return static_cast<int>(h % static_cast<std::uint32_t>(takers));
  }

  std::uint32_t draw_;
  bool all_orders_of_all_;
  std::uint32_t kernel_ = 0;
  std::array<count, 5> counts_{};
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
    p.name(&d.taken->chunks_to_send, "chunks taken of all" + whose, 1);
    p.name(&d.taken->sums_to_send, "sums taken of all" + whose, 2);
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
    using kernel = chunk_layout::dispatch_kernel<ep::bf16_tokens>;
    const auto p = end.dispatch(in, grid.roles, limits.which != half::send);
    x.begin_takes(plan.next(x), limits.which == half::both ? grid.roles.senders : grid.roles.warps(),
                  &p.taken->chunks_to_send);
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
    const auto p = end.combine(in, grid.roles, limits.which != half::send, store);
    x.begin_takes(chunk_layout::combine_plan{}.next(x), grid.roles.senders, &p.taken->sums_to_send,
                  &p.taken->sums_to_receive);
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
