#include "checks/per_rank_exploration.hpp"

#include "checks/per_rank_rounds.hpp"
#include "kernels/ep/per_rank/combine.hpp"
#include "kernels/ep/per_rank/dispatch.hpp"
#include "kernels/ep/per_rank/grid.hpp"

namespace baton::checks {
namespace {

namespace line_layout = ep::per_rank;

struct line_kernels {
  using setting = exchange_setting;
  using context = exchange_context;
  using endpoint = line_layout::endpoint;

  static std::size_t window_bytes(const setting&, const ep::shape& s) {
    return line_layout::cells{s}.bytes();
  }
  static std::size_t local_bytes(const setting&, const ep::shape& s) {
    return line_layout::local_cells{s}.bytes;
  }
  static endpoint end(const setting&, const ep::shape& s) { return {s, {}, nullptr}; }

  static void name(check::program& p, const endpoint& end, const std::string& whose) {
    const line_layout::cells window{end.s};
    const std::size_t tokens = window.token_at(end.s, 0, 0, 0), sums = window.sum_at(end.s, 0, 0);
    const auto name = [&](std::size_t begin, std::size_t behind, const char* what) {
      p.name(reinterpret_cast<const line_cell*>(end.windows.at[end.s.rank] + begin), what + whose,
             (behind - begin) / line_bytes);
    };
    name(0, tokens / 2, "even ids");
    name(tokens / 2, tokens, "odd ids");
    name(tokens, (tokens + sums) / 2, "even tokens");
    name((tokens + sums) / 2, sums, "odd tokens");
    name(sums, window.bytes(), "sums");
  }

  static void dispatch(exchange_context& x, const endpoint& end, const line_layout::launch_limits& limits,
                       const line_layout::round_input& in) {
    const auto grid = line_layout::grid_of_dispatch(end, limits, in.num_tokens);
    using kernel = line_layout::dispatch_kernel<ep::bf16_tokens>;
    kernel::run(x, kernel::params{end.dispatch(in, grid.senders, limits.which != half::send)});
  }
  static void combine(exchange_context& x, const endpoint& end, const line_layout::launch_limits& limits,
                      const line_layout::combine_input& in, const ep::store_fp32& store) {
    const auto grid = line_layout::grid_of_combine(end, limits, in.num_tokens);
    using kernel = line_layout::combine_kernel<ep::store_fp32>;
    kernel::run(x, kernel::params{end.combine(in, grid.senders, limits.which != half::send, store)});
  }
};

}  // namespace

check::result check_per_rank(const exchange_setting& e, check::bounds limits) {
  return explore_per_rank<line_kernels>(e, std::move(limits));
}

}  // namespace baton::checks
