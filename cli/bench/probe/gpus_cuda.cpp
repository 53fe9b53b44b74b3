// Measures GPUs from one thread: windows of all ranks, a stream and two events on each device.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <type_traits>

#include "baton/device_buffer.hpp"
#include "baton/error.hpp"
#include "cli/bench/probe/measure.hpp"
#include "cli/bench/probe/params.hpp"
#include "runtime/device_guard_cuda.hpp"
#include "runtime/error_cuda.hpp"
#include "runtime/launch_on_cuda.hpp"
#include "runtime/window.hpp"

namespace baton::probe {

// Device code: kernel.cuh.
struct push_kernel;
template <order Load, order Store>
struct bounce_kernel;

namespace {

constexpr int push_threads = 1024;
constexpr int sweeps = 4;
constexpr int push_warmups = 2;
constexpr int push_repeats = 10;
constexpr int chunk_bytes = 64 << 10;
constexpr std::uint64_t bounce_warmup = 100;
constexpr std::uint64_t bounce_rounds = 2000;

// A window: flag words, 128 bytes apart; the measured time; then a slice for each device that pushes.
constexpr std::size_t flag_stride = 128;
constexpr std::size_t elapsed_offset = 4096 - flag_stride;
constexpr std::size_t slices_offset = 4096;
static_assert((most_peers + 1) * flag_stride <= elapsed_offset);

struct destroy {
  void operator()(cudaStream_t s) const { cudaStreamDestroy(s); }
  void operator()(cudaEvent_t e) const { cudaEventDestroy(e); }
};
using stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, destroy>;
using event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, destroy>;

stream make_stream() {
  cudaStream_t s = nullptr;
  check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "creating a stream");
  return stream{s};
}
event make_event() {
  cudaEvent_t e = nullptr;
  check(cudaEventCreate(&e), "creating an event");
  return event{e};
}

/// A device that takes part, by way of one of its ranks.
struct participant {
  world rank;
  const symmetric_window* window;
  stream first, second;  // the second only where one GPU bounces a flag with itself
  event begin, end;

  participant(world w, const symmetric_window* at) : rank{std::move(w)}, window{at} {
    const device_guard guard{rank.device_index()};
    first = make_stream();
    second = make_stream();
    begin = make_event();
    end = make_event();
  }
  /// The word into which participant `from` stores.
  std::uint64_t* flag(std::size_t from) const {
    return window->peer_as<std::uint64_t>(rank.rank(), from * flag_stride);
  }
  vec16* slice(std::size_t from) const {
    return window->peer_as<vec16>(rank.rank(), slices_offset + from * slice_bytes);
  }
  std::uint64_t* elapsed() const { return window->peer_as<std::uint64_t>(rank.rank(), elapsed_offset); }
};

class gpu_links {
 public:
  explicit gpu_links(std::span<const world> worlds) : windows_(worlds.size()) {
    const std::vector<int> ranks = one_rank_of_each_device(worlds);
    const std::size_t slices = std::max<std::size_t>(ranks.size(), 2);
    const std::size_t bytes = slices_offset + slices * slice_bytes;
    on_every_rank(worlds, [&](int r) {
      const auto i = static_cast<std::size_t>(r);
      windows_[i] =
          make_window(worlds[i], bytes, "the link probe", "skip the measurement (baton doctor --quick)");
    });
    for (const int r : ranks) {
      const auto i = static_cast<std::size_t>(r);
      participants_.push_back(std::make_unique<participant>(worlds[i], windows_[i].get()));
    }
  }

  bool alone() const { return participants_.size() == 1; }
  std::size_t size() const { return participants_.size(); }
  int device(std::size_t i) const { return participants_[i]->rank.device_index(); }

  /// GB/s of each device in each repeat, all pushing at once.
  std::vector<std::vector<double>> push() {
    std::vector<std::vector<double>> samples(size());
    for (int repeat = -push_warmups; repeat < push_repeats; ++repeat) {
      for (std::size_t i = 0; i < size(); ++i) start_push(i);
      for (std::size_t i = 0; i < size(); ++i) {
        const double rate = finish_push(i);
        if (repeat >= 0) samples[i].push_back(rate);
      }
    }
    return samples;
  }

  /// Microseconds one way of every pair.
  std::vector<double> bounce(bool ordered) {
    std::vector<double> samples;
    if (alone()) samples.push_back(bounce_pair({0, 0}, {0, 1}, ordered));
    for (std::size_t i = 0; i < size(); ++i)
      for (std::size_t j = i + 1; j < size(); ++j) samples.push_back(bounce_pair({i, i}, {j, j}, ordered));
    base_ += bounce_warmup + bounce_rounds;  // the next variant counts on from here
    return samples;
  }

 private:
  /// One side of a flag: the participant, and the name under which it stores (its own index, except alone).
  struct side {
    std::size_t who;
    std::size_t name;
  };

  static std::vector<int> one_rank_of_each_device(std::span<const world> worlds) {
    std::vector<int> ranks, devices;
    for (const world& w : worlds)
      if (std::find(devices.begin(), devices.end(), w.device_index()) == devices.end()) {
        devices.push_back(w.device_index());
        ranks.push_back(w.rank());
      }
    if (ranks.size() > most_peers + 1)
      throw unsupported{
          fmt::format("the link probe serves up to {} GPUs, found {}", most_peers + 1, ranks.size())};
    return ranks;
  }

  std::size_t bytes_of_one_push() const { return (alone() ? 1 : size() - 1) * slice_bytes * sweeps; }

  void start_push(std::size_t i) {
    const participant& from = *participants_[i];
    push_params p;
    p.chunk_vecs = chunk_bytes / static_cast<int>(sizeof(vec16));
    p.chunks = static_cast<int>(slice_bytes / chunk_bytes);
    p.sweeps = sweeps;
    p.rank = static_cast<int>(i);
    if (alone()) p.to[p.num_peers++] = from.slice(1);
    for (std::size_t j = 0; j < size(); ++j)
      if (j != i) p.to[p.num_peers++] = participants_[j]->slice(i);
    const device_guard guard{from.rank.device_index()};
    int sms = 0;
    check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, from.rank.device_index()));
    check(cudaEventRecord(from.begin.get(), from.first.get()));
    launch_on_cuda<push_kernel>(from.rank, {sms, push_threads}, p, {}, {from.first.get()});
    check(cudaEventRecord(from.end.get(), from.first.get()));
  }

  double finish_push(std::size_t i) {
    const participant& from = *participants_[i];
    const device_guard guard{from.rank.device_index()};
    check(cudaEventSynchronize(from.end.get()), "waiting for the push probe");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, from.begin.get(), from.end.get()));
    return 1e-6 * static_cast<double>(bytes_of_one_push()) / static_cast<double>(ms);
  }

  void start_bounce(const side& own, const side& other, bool serves, bool ordered) {
    const participant& from = *participants_[own.who];
    const participant& to = *participants_[other.who];
    bounce_params p;
    p.mine = from.flag(other.name);
    p.theirs = to.flag(own.name);
    p.base = base_;
    p.warmup = bounce_warmup;
    p.rounds = bounce_rounds;
    p.elapsed_ns = from.elapsed() + (serves ? 0 : 1);
    p.peer = to.rank.rank();
    p.serves = serves;
    wait_limits limits = from.rank.state().limits();
    limits.deadline_ns = flag_deadline_ns;
    const stream_ref on{(serves ? from.first : from.second).get()};
    if (ordered)
      launch_on_cuda<bounce_kernel<order::acquire, order::release>>(from.rank, {}, p, limits, on);
    else
      launch_on_cuda<bounce_kernel<order::relaxed, order::relaxed>>(from.rank, {}, p, limits, on);
  }

  /// Both sides are waited for before either's error is thrown: their reports must not linger.
  double bounce_pair(const side& a, const side& b, bool ordered) {
    const participant& server = *participants_[a.who];
    const participant& guest = *participants_[b.who];
    start_bounce(a, b, true, ordered);
    start_bounce(b, a, false, ordered);
    std::exception_ptr failure;
    const auto finish = [&](const world& w, const stream& s) {
      try {
        w.synchronize({s.get()});
      } catch (const error&) {
        if (!failure) failure = std::current_exception();
      }
    };
    finish(guest.rank, guest.second);
    finish(server.rank, server.first);
    if (failure) std::rethrow_exception(failure);
    std::uint64_t elapsed_ns = 0;
    copy_async(server.rank, &elapsed_ns, server.elapsed(), sizeof elapsed_ns, {server.first.get()});
    server.rank.synchronize({server.first.get()});
    return 1e-3 * static_cast<double>(elapsed_ns) / (2.0 * static_cast<double>(bounce_rounds));
  }

  std::vector<std::unique_ptr<symmetric_window>> windows_;
  std::vector<std::unique_ptr<participant>> participants_;
  std::uint64_t base_ = 0;
};

}  // namespace

link_report measure_gpus(std::span<const world> worlds, links_of what) {
  gpu_links links{worlds};
  link_report report;
  report.between = links.alone() ? "two buffers of one GPU" : "GPUs";
  report.method = "16-byte stores from all SMs";
  report.bytes_per_peer = slice_bytes * sweeps;
  const std::vector<std::vector<double>> rates = links.push();
  for (std::size_t i = 0; i < links.size(); ++i) {
    report.devices.push_back(links.device(i));
    report.egress_gb_per_s.push_back(spread_of(rates[i]));
  }
  if (what == links_of::bytes) return report;
  report.flag_us = spread_of(links.bounce(false));
  report.flag_ordered_us = spread_of(links.bounce(true));
  return report;
}

}  // namespace baton::probe
