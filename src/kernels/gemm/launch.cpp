#include "kernels/gemm/launch.hpp"

#include "kernels/gemm/cpu.hpp"
#include "kernels/gemm/instances.hpp"
#include "kernels/gemm/tile_choice.hpp"
#include "runtime/launch_on_cuda.hpp"
#include "runtime/tensor_map.hpp"
#include "sim/machine.hpp"

namespace baton::gemm_kernels {
namespace {

template <class Out, class In>
operands<Out, In> operands_of(const gemm_problem<Out, In>& p) {
  return {.a = p.a,
          .b = p.b,
          .c = p.c,
          .m = p.m,
          .n = p.n,
          .k = p.k,
          .alpha = p.alpha,
          .beta = p.beta,
          .bias = p.bias,
          .fp32_bias = p.fp32_bias,
          .act = p.act,
          .b_is_rows_of_k = p.b_layout == gemm_b_layout::k_by_n};
}

struct maps_of_device {
  const world& w;
  tensor_map operator()(const tensor_layout& matrix) const { return make_tensor_map(w, matrix); }
};

/// As many clusters as there may be tiles for, of what the SMs hold.
template <config c, class Out, class In>
void launch_as(const world& w, const operands<Out, In>& problem, int num_sms, stream_ref stream,
               int cluster = c.cluster) {
  const int most_tiles =
      walk_of<c>(problem.m, problem.n).size() + problem.groups * walk_of<c>(1, problem.n).size();
  const int clusters = smaller(most_tiles, larger(num_sms / cluster, 1));
  const launch_grid grid{
      .blocks = clusters * cluster,
      .threads = num_warps * warp_lanes,
      .shared_bytes = block_plan<c>{}.bytes,
      .cluster = cluster,
      .begins_early = !c.grouped};  // groups come after an exchange, and may have to leave SMs to others
  const params p = params_of<c>(problem, maps_of_device{w});
  launch_on_cuda<gemm_kernel<constant<c>>>(w, grid, p, w.state().limits(), stream);
}

/// f(constant<given>), compiled for both.
template <class F>
void with_constant(bool given, F f) {
  given ? f(constant<true>{}) : f(constant<false>{});
}

template <gemm_tiles tiles, class Out, class In>
void launch_with(const world& w, const gemm_problem<Out, In>& problem, int num_sms, stream_ref stream) {
  const operands<Out, In> p = operands_of(problem);
  with_constant(p.has_ending(), [&](auto epilogue) {
    launch_as<dense_config<Out, In, tiles, epilogue.value>>(w, p, num_sms, stream);
  });
}

template <class Problem>
void run_on_cpu(const world& w, const Problem& problem, stream_ref stream) {
  w.state().machine->host(
      w.rank(), [problem] { gemm_cpu::run(problem); }, stream.native);
}

template <class Value>
void run_groups(const world& w, const operands<Value, Value>& problem, int num_sms, stream_ref stream) {
  if (w.device() == device_kind::cpu) return run_on_cpu(w, problem, stream);
  with_constant(problem.a_list != nullptr, [&](auto listed) {
    with_constant(problem.has_ending(), [&](auto epilogue) {
      launch_as<group_config<Value, listed.value, epilogue.value>>(w, problem, num_sms, stream);
    });
  });
}

template <bool block_scaled, class Value>
void launch_gated(const world& w, const operands<Value, Value>& problem, int num_sms, stream_ref stream) {
  with_constant(problem.a_list != nullptr, [&](auto listed) {
    with_constant(problem.has_ending(), [&](auto epilogue) {
      launch_as<gated_config<block_scaled, listed.value, epilogue.value>>(w, problem, num_sms, stream);
    });
  });
}

template <bool epilogue>
void launch_scaled(const world& w, const operands<bfloat16, float8_e4m3>& problem, const tile_choice& chosen,
                   int num_sms, stream_ref stream) {
  const bool medium = chosen.tiles == gemm_tiles::medium;
  if (chosen.splits == 1)
    return medium ? launch_as<scaled_config<gemm_tiles::medium, epilogue>>(w, problem, num_sms, stream)
                  : launch_as<scaled_config<gemm_tiles::paired, epilogue>>(w, problem, num_sms, stream);
  with_constant(medium, [&](auto of_medium) {
    constexpr gemm_tiles tiles = of_medium.value ? gemm_tiles::medium : gemm_tiles::narrow;
    launch_as<split_config<bfloat16, float8_e4m3, tiles, epilogue>>(w, problem, num_sms, stream,
                                                                    chosen.splits);
  });
}

}  // namespace

template <class Out, class In>
void run(const world& w, const gemm_problem<Out, In>& problem, const gemm_config& config, stream_ref stream) {
  if (w.device() == device_kind::cpu) return run_on_cpu(w, problem, stream);
  const tile_choice chosen = chosen_of(tile_rates, config, problem.m, problem.n, problem.k);
  if (chosen.splits > 1)
    return launch_as<split_config<Out, In>>(w, operands_of(problem), config.num_sms, stream, chosen.splits);
  switch (chosen.tiles) {
    case gemm_tiles::wide:
      return launch_with<gemm_tiles::wide>(w, problem, config.num_sms, stream);
    case gemm_tiles::medium:
      return launch_with<gemm_tiles::medium>(w, problem, config.num_sms, stream);
    case gemm_tiles::narrow:
      return launch_with<gemm_tiles::narrow>(w, problem, config.num_sms, stream);
    default:
      return launch_with<gemm_tiles::paired>(w, problem, config.num_sms, stream);
  }
}

void run(const world& w, const operands<bfloat16>& problem, int num_sms, stream_ref stream) {
  run_groups(w, problem, num_sms, stream);
}
void run(const world& w, const operands<float16, float16>& problem, int num_sms, stream_ref stream) {
  run_groups(w, problem, num_sms, stream);
}

void run(const world& w, const operands<bfloat16, float8_e4m3>& problem, int num_sms, stream_ref stream) {
  if (w.device() == device_kind::cpu) return run_on_cpu(w, problem, stream);
  with_constant(problem.has_ending(), [&](auto epilogue) {
    // Without k no operand is looked at, and no slot tells of tiles.
    if (problem.k == 0)
      return launch_as<group_config<bfloat16, false, epilogue.value>>(w, problem, num_sms, stream);
    with_constant(problem.a_list != nullptr, [&](auto listed) {
      launch_as<scaled_group_config<listed.value, epilogue.value>>(w, problem, num_sms, stream);
    });
  });
}
void run(const world& w, const operands<bfloat16, float8_e4m3>& problem, const gemm_config& config,
         stream_ref stream) {
  if (w.device() == device_kind::cpu) return run_on_cpu(w, problem, stream);
  const tile_choice chosen = chosen_of(scaled_tile_rates, config, problem.m, problem.n, problem.k);
  with_constant(problem.has_ending(), [&](auto epilogue) {
    launch_scaled<epilogue.value>(w, problem, chosen, config.num_sms, stream);
  });
}

void run_gated(const world& w, const operands<bfloat16>& problem, int num_sms, stream_ref stream) {
  launch_gated<false>(w, problem, num_sms, stream);
}

void run_gated(const world& w, const operands<float8_e4m3, float8_e4m3>& problem, int num_sms,
               stream_ref stream) {
  launch_gated<true>(w, problem, num_sms, stream);
}

template void run(const world&, const gemm_problem<bfloat16>&, const gemm_config&, stream_ref);
template void run(const world&, const gemm_problem<float>&, const gemm_config&, stream_ref);
template void run(const world&, const gemm_problem<float16, float16>&, const gemm_config&, stream_ref);
template void run(const world&, const gemm_problem<float, float16>&, const gemm_config&, stream_ref);

}  // namespace baton::gemm_kernels
