#include "checks/per_rank_exploration.hpp"

#include "checks/per_rank_rounds.hpp"
#include "kernels/ep/per_rank/by_flags.hpp"
#include "kernels/ep/per_rank/combine.hpp"
#include "kernels/ep/per_rank/dispatch.hpp"
#include "kernels/ep/per_rank/grid.hpp"

namespace baton::checks {
namespace {

namespace units = ep::per_rank;

/// By `Way`; what differs between them are cells of the window.
template <class Way, class Endpoint>
struct kernels_by {
  using setting = exchange_setting;
  using context = exchange_context;
  struct endpoint : Endpoint {
    int takes_units;
  };
  using cells = typename Way::cells;

  static std::size_t window_bytes(const setting& e, const ep::shape& s) { return end(e, s).window_bytes(); }
  static std::size_t local_bytes(const setting&, const ep::shape& s) { return units::local_cells{s}.bytes; }
  static endpoint end(const setting& e, const ep::shape& s) { return {Endpoint::of(s), e.takes_units}; }

  static void name(check::program& p, const endpoint& end, const std::string& whose) {
    const cells window = end.window_cells();
    const std::size_t tokens = window.token_at(end.s, 0, 0, 0), sums = window.sum_at(end.s, 0, 0);
    const namer name{p, end.windows.at[end.s.rank], whose};
    name.halves(0, tokens, "ids");
    name.halves(tokens, sums, "tokens");
    name_behind(name, window, end.s, sums);
    p.name(end.template own<std::uint32_t>(&units::local_cells::units_taken), "units taken" + whose, 1);
    if (end.s.late_weights) name.whole(end.weights({}).words, end.window_bytes(), "words of weights");
  }

  static void dispatch(exchange_context& x, const endpoint& end, const units::launch_limits& limits,
                       const units::round_input& in) {
    const auto grid = units::grid_of_dispatch(end, limits, in.num_tokens);
    using kernel = units::dispatch_kernel<ep::bf16_tokens, 0, std::int32_t, Way>;
    kernel::run(x, typename kernel::params{end.dispatch(in, grid.senders, limits.which != half::send)});
  }
  static void combine(exchange_context& x, const endpoint& end, const units::launch_limits& limits,
                      const units::combine_input& in, const ep::store_fp32& store) {
    const auto grid = units::grid_of_combine(end, limits, in.num_tokens);
    const auto p = end.combine(in, {grid.senders, end.takes_units}, limits.which != half::send, store);
    using kernel = units::combine_kernel<ep::store_fp32, 0, Way>;
    using fp8_kernel = units::combine_kernel<ep::store_fp32, 0, Way, token_format::blockwise_fp8>;
    if (end.s.fp8_sums) return fp8_kernel::run(x, typename fp8_kernel::params{p});
    kernel::run(x, typename kernel::params{p});
  }

 private:
  struct namer {
    check::program& p;
    std::byte* window;
    const std::string& whose;

    /// Lines of a window; a word's name is its line's.
    void whole(std::size_t begin, std::size_t behind, const std::string& what) const {
      p.name(reinterpret_cast<const line_cell*>(window + begin), what + whose, (behind - begin) / line_bytes);
    }
    /// Of even rounds and of odd ones.
    void halves(std::size_t begin, std::size_t behind, const std::string& what) const {
      whole(begin, (begin + behind) / 2, "even " + what);
      whole((begin + behind) / 2, behind, "odd " + what);
    }
  };

  static void name_behind(const namer& name, const units::cells& window, const ep::shape&, std::size_t sums) {
    name.whole(sums, window.bytes(), "sums");
  }
  static void name_behind(const namer& name, const units::flag_cells& window, const ep::shape& s,
                          std::size_t sums) {
    const std::size_t cleared = window.cleared_at(s, 0, 0);
    name.whole(sums, cleared, "sums");
    name.whole(cleared, window.bytes(), "flags of what is cleared");
  }
};

}  // namespace

check::result check_per_rank(const exchange_setting& e, check::bounds limits) {
  return explore_per_rank<kernels_by<units::by_lines, units::endpoint>>(e, std::move(limits));
}

check::result check_by_flags(const exchange_setting& e, check::bounds limits) {
  return explore_per_rank<kernels_by<units::by_flags, units::flag_endpoint>>(e, std::move(limits));
}

}  // namespace baton::checks
