#pragma once
// Two kernels that measure links: stores of 16 bytes to every peer, and a flag between two ranks.
#include <cuda/ptx>

#include "cli/bench/probe/params.hpp"
#include "device/gpu.cuh"
#include "exec/line.hpp"

namespace baton::probe {

/// Blocks take chunks in turn; consecutive chunks go to different peers, and ranks begin with different ones,
/// so that no receiver is everybody's target at once.
struct push_kernel {
  BATON_FN static void run(gpu& x, const push_params& p) {
    const vec16 payload{{static_cast<std::uint32_t>(p.rank), 1u, 2u, 3u}};
    const int all = p.chunks * p.num_peers;
    for (int sweep = 0; sweep < p.sweeps; ++sweep)
      for (int chunk = x.block(); chunk < all; chunk += x.num_blocks()) {
        vec16* const to = p.to[(chunk + p.rank) % p.num_peers] +
                          static_cast<std::int64_t>(chunk / p.num_peers) * p.chunk_vecs;
        x.block_each(p.chunk_vecs, [&](int i) { x.write(to + i, payload); });
      }
  }
};

/// One warp. Every wait has the deadline of the context; a wait that fails ends the kernel.
template <order Load, order Store>
struct bounce_kernel {
  BATON_FN static void run(gpu& x, const bounce_params& p) {
    std::uint64_t start = 0;
    for (std::uint64_t i = 1; i <= p.warmup + p.rounds; ++i) {
      if (i == p.warmup + 1) start = cuda::ptx::get_sreg_globaltimer();
      const std::uint64_t turn = p.base + i;
      if (p.serves) send(x, p, turn);
      if (!awaits(x, p, turn)) return;
      if (!p.serves) send(x, p, turn);
    }
    const std::uint64_t elapsed = cuda::ptx::get_sreg_globaltimer() - start;
    x.elect([&] { x.write(p.elapsed_ns, elapsed); });
  }

  BATON_FN static void send(gpu& x, const bounce_params& p, std::uint64_t turn) {
    x.elect([&] { x.template store<Store, scope::system>(p.theirs, turn); });
  }

  BATON_FN static bool awaits(gpu& x, const bounce_params& p, std::uint64_t turn) {
    gpu::lanes<std::uint64_t*> words;
    gpu::lanes<std::uint64_t> seen;
    x.each_lane([&](int lane) { words[lane] = lane == 0 ? p.mine : nullptr; });
    const wait_site where{.where = "probe.flag", .peer = p.peer, .expected = turn};
    return x.template wait<Load, scope::system>(
        words, [&](int, std::uint64_t value) { return value >= turn; }, where, seen);
  }
};

/// One warp, a lane for each rank. Begins while the kernel before it ends.
struct greet_kernel {
  template <line_exec_context X>
  BATON_FN static void run(X& x, const greet_params& p) {
    x.launch_dependents();
    x.await_dependencies();
    typename X::template lanes<std::uint64_t> counts, seen;
    typename X::template lanes<std::uint64_t*> words;
    x.each_lane([&](int lane) {
      counts[lane] = x.read(p.count) + 1;
      words[lane] = lane < p.num_ranks ? p.from + lane * greet_stride : nullptr;
      if (lane < p.num_ranks) x.template store<order::relaxed, scope::system>(p.to[lane], counts[lane]);
    });
    const std::uint64_t count = x.broadcast(counts, 0);
    const wait_site where{
        .where = "probe.greeting", .peer = 0, .expected = count, .peer_modulus = p.num_ranks};
    const bool all = x.template wait<order::relaxed, scope::system>(
        words, [&](int, std::uint64_t value) { return value >= count; }, where, seen);
    if (all) x.elect([&] { x.write(p.count, count); });
  }
};

}  // namespace baton::probe
