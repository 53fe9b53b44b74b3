#include "cli/bench/streams_cuda.hpp"

#include "baton/error.hpp"
#include "runtime/device_guard_cuda.hpp"
#include "runtime/error_cuda.hpp"

namespace baton::cli {

start_gate::start_gate() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  check(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &found, 12000, cudaEnableDefault, &result),
        "looking up cuStreamWaitValue32");
  if (result != cudaDriverEntryPointSuccess || found == nullptr)
    throw unsupported{"the CUDA driver has no cuStreamWaitValue32; install a driver of version 580 or later"};
  wait_value_ = reinterpret_cast<decltype(wait_value_)>(found);
  void* word = nullptr;
  check(cudaHostAlloc(&word, sizeof(std::uint32_t), cudaHostAllocPortable | cudaHostAllocMapped),
        "allocating the start gate");
  word_ = static_cast<volatile std::uint32_t*>(word);
  *word_ = 0;
}

start_gate::~start_gate() {
  open();
  static_cast<void>(cudaFreeHost(const_cast<std::uint32_t*>(word_)));
}

void start_gate::hold(cudaStream_t stream) const {
  const auto address = reinterpret_cast<CUdeviceptr>(word_);  // one address space for host and devices
  check(wait_value_(stream, address, turn_ + 1, CU_STREAM_WAIT_VALUE_GEQ), "holding a stream");
}

void start_gate::open() {
  *word_ = ++turn_;
}

rank_streams::rank_streams(std::span<const world> worlds, int num_events) : worlds_{worlds} {
  for (const world& rank : worlds) {
    const device_guard on_device{rank.device_index()};
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
    of_rank own{stream_owner{stream}, {}};
    for (int i = 0; i < num_events; ++i) {
      cudaEvent_t event = nullptr;
      check(cudaEventCreate(&event), "creating an event");
      own.events.emplace_back(event);
    }
    ranks_.push_back(std::move(own));
  }
}

void rank_streams::hold(int rank) const {
  const device_guard on_device{worlds_[static_cast<std::size_t>(rank)].device_index()};
  gate_.hold(stream(rank));
}

void rank_streams::record(int rank, int event, unsigned flags) const {
  const device_guard on_device{device(rank)};
  const auto& events = ranks_[static_cast<std::size_t>(rank)].events;
  check(cudaEventRecordWithFlags(events[static_cast<std::size_t>(event)].get(), stream(rank), flags),
        "recording an event");
}
void rank_streams::record(int rank, int event) const {
  record(rank, event, cudaEventRecordDefault);
}
void rank_streams::wait(int rank, const rank_streams& other, int event) const {
  const device_guard on_device{device(rank)};
  const auto& events = other.ranks_[static_cast<std::size_t>(rank)].events;
  check(cudaStreamWaitEvent(stream(rank), events[static_cast<std::size_t>(event)].get()),
        "waiting for another stream");
}
void rank_streams::record_in_graph(int rank, int event) const {
  record(rank, event, cudaEventRecordExternal);
}

void rank_streams::run() {
  gate_.open();
  for (std::size_t r = 0; r < ranks_.size(); ++r) worlds_[r].synchronize({ranks_[r].stream.get()});
}

double rank_streams::microseconds(int rank, int from, int to) const {
  const auto& events = ranks_[static_cast<std::size_t>(rank)].events;
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, events[static_cast<std::size_t>(from)].get(),
                             events[static_cast<std::size_t>(to)].get()),
        "reading events");
  return 1000.0 * static_cast<double>(milliseconds);
}

}  // namespace baton::cli
