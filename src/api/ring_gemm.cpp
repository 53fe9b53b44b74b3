#include "baton/ring_gemm.hpp"

#include <fmt/format.h>

#include "api/matrix_arguments.hpp"
#include "baton/error.hpp"
#include "kernels/ring_gemm/launch.hpp"
#include "runtime/world_state.hpp"

namespace baton {
namespace {

using ring_gemm_kernels::large_tiles;

void require(const ring_gemm_problem& p) {
  require_extent("m", p.m);
  require_extent("n", p.n);
  require_extent("k", p.k);
  require_result(p.m, p.n);
  if (p.m == 0 || p.n == 0) return;
  require_matrix("c", p.c, alignof(float), "[m, n]", p.m, p.n);
  if (p.k == 0) return;
  require_matrix("a", p.a, alignof(bfloat16), "[m, k]", p.m, p.k);
  require_matrix("b", p.b, alignof(bfloat16), "[n, k]", p.n, p.k);
}

void require(const ring_gemm_config& c) {
  if (c.num_sms < 0) throw invalid_argument{fmt::format("num_sms: {} must not be negative", c.num_sms)};
  const int strategy = static_cast<int>(c.strategy), tiles = static_cast<int>(c.tiles);
  if (strategy < 0 || strategy > static_cast<int>(ring_strategy::mbarrier))
    throw invalid_argument{fmt::format("strategy: {} is no ring_strategy", strategy)};
  if (tiles < 0 || tiles > static_cast<int>(ring_gemm_tiles::large))
    throw invalid_argument{fmt::format("tiles: {} is no ring_gemm_tiles", tiles)};
}

/// Large tiles where each SM gets one.
bool takes_large_tiles(const ring_gemm_problem& p, const ring_gemm_config& c, int sms) {
  if (c.tiles != ring_gemm_tiles::automatic) return c.tiles == ring_gemm_tiles::large;
  constexpr auto large = large_tiles(ring_strategy::mbarrier);
  const tile_walk walk{p.m, p.n, large.block_m(), large.block_n()};
  return static_cast<std::int64_t>(walk.rows) * walk.columns >= sms;
}

}  // namespace

void ring_gemm(const world& world, const ring_gemm_problem& problem, const ring_gemm_config& config,
               stream_ref stream) {
  require(problem);
  require(config);
  if (problem.m == 0 || problem.n == 0) return;
  const int sms = sms_of(world);
  const int used = config.num_sms == 0 ? sms : smaller(sms, config.num_sms);
  launch(world, {config.strategy, takes_large_tiles(problem, config, used), used},
         ring_gemm_kernels::params_of(problem), stream);
}

}  // namespace baton
