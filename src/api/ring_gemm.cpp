#include "baton/ring_gemm.hpp"

#include <fmt/format.h>

#include "baton/error.hpp"
#include "kernels/ring_gemm/launch.hpp"
#include "runtime/world_state.hpp"

namespace baton {
namespace {

using ring_gemm_kernels::large_tiles;

void require(const ring_gemm_problem& p) {
  if (p.m < 0 || p.n < 0 || p.k < 0)
    throw invalid_argument{fmt::format("problem: m {}, n {}, k {} must not be negative", p.m, p.n, p.k)};
  const bool has_result = p.m > 0 && p.n > 0;
  if (has_result && p.c == nullptr)
    throw invalid_argument{fmt::format("c: null, expected memory of [m, n] = [{}, {}]", p.m, p.n)};
  if (has_result && p.k > 0 && (p.a == nullptr || p.b == nullptr))
    throw invalid_argument{fmt::format("{}: null, expected memory of [{}, k] = [{}, {}]",
                                       p.a == nullptr ? "a" : "b", p.a == nullptr ? "m" : "n",
                                       p.a == nullptr ? p.m : p.n, p.k)};
}

/// Large tiles where each SM gets one.
bool takes_large_tiles(const ring_gemm_problem& p, const ring_gemm_config& c, int sms) {
  if (c.tiles != ring_gemm_tiles::automatic) return c.tiles == ring_gemm_tiles::large;
  constexpr auto large = large_tiles(ring_strategy::mbarrier);
  const ring_gemm_kernels::tile_walk walk{p.m, p.n, large.block_m(), large.block_n()};
  return static_cast<std::int64_t>(walk.rows) * walk.columns >= sms;
}

bool aligned(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
}

}  // namespace

void ring_gemm(const world& world, const ring_gemm_problem& problem, const ring_gemm_config& config,
               stream_ref stream) {
  require(problem);
  if (config.num_sms < 0)
    throw invalid_argument{fmt::format("num_sms: {} must not be negative", config.num_sms)};
  if (problem.m == 0 || problem.n == 0) return;
  const int sms = sms_of(world);
  const int used = config.num_sms == 0 ? sms : smaller(sms, config.num_sms);
  const bool vectors = problem.k % 8 == 0 && aligned(problem.a) && aligned(problem.b);
  const ring_gemm_kernels::params p{problem.a, problem.b, problem.c, problem.m,
                                    problem.n, problem.k, vectors};
  launch(world, {config.strategy, takes_large_tiles(problem, config, used), used}, p, stream);
}

}  // namespace baton
