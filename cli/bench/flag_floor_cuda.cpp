#include "cli/bench/flag_floor.hpp"

#include <memory>

#include "baton/device_buffer.hpp"
#include "cli/bench/captured_rounds_cuda.hpp"
#include "cli/bench/probe/params.hpp"
#include "runtime/launch_on_cuda.hpp"
#include "runtime/window.hpp"
#include "runtime/world_state.hpp"

namespace baton::probe {

struct greet_kernel;  // device code: kernel.cuh

}  // namespace baton::probe

namespace baton::cli {
namespace {

constexpr const char* purpose = "the floor of the benchmark";
constexpr const char* knob = "use fewer --ranks";
constexpr int kernels_of_round = 2;
constexpr int warm_ups = 3;

/// The words of all ranks, all 0.
struct greetings {
  std::vector<std::unique_ptr<symmetric_window>> windows;
  std::vector<device_buffer<std::uint64_t>> counts;

  explicit greetings(std::span<const world> worlds) : windows(worlds.size()), counts(worlds.size()) {
    const std::size_t bytes = worlds.size() * probe::greet_stride * sizeof(std::uint64_t);
    on_every_rank(worlds, [&](int r) {
      const auto rank = static_cast<std::size_t>(r);
      windows[rank] = make_window(worlds[rank], bytes, purpose, knob);
      counts[rank] = {worlds[rank], 1, {purpose, knob}};
      counts[rank].fill_async(0);
      worlds[rank].synchronize();
    });
  }
  probe::greet_params params(int rank) {
    const auto own = static_cast<std::size_t>(rank);
    probe::greet_params p;
    p.num_ranks = static_cast<int>(windows.size());
    for (int r = 0; r < p.num_ranks; ++r)
      p.to[r] = windows[own]->peer_as<std::uint64_t>(r, own * probe::greet_stride * sizeof(std::uint64_t));
    p.from = windows[own]->peer_as<std::uint64_t>(rank, 0);
    p.count = counts[own].data();
    return p;
  }
};

}  // namespace

std::vector<std::vector<double>> measure_flag_floor(std::span<const world> worlds, int rounds, int repeats) {
  greetings words{worlds};
  rank_streams streams{worlds, 2};
  const launch_grid grid{.begins_early = true};
  captured_rounds graph{
      streams, static_cast<int>(worlds.size()), rounds, [&](int rank, int, cudaStream_t stream) {
        const world& w = worlds[static_cast<std::size_t>(rank)];
        for (int i = 0; i < kernels_of_round; ++i)
          launch_on_cuda<probe::greet_kernel>(w, grid, words.params(rank), w.state().limits(), {stream});
      }};
  std::vector<std::vector<double>> samples;
  for (int i = -warm_ups; i < repeats; ++i) {
    std::vector<double> times = graph.replay();
    if (i >= 0) samples.push_back(std::move(times));
  }
  return samples;
}

}  // namespace baton::cli
