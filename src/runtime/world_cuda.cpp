// A world's devices: which, whether they reach each other, and the memory through which their kernels report.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <type_traits>

#include "baton/error.hpp"
#include "runtime/device_guard_cuda.hpp"
#include "runtime/error_cuda.hpp"
#include "runtime/on_cuda.hpp"

namespace baton::on_cuda {
namespace {

int count_devices() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return count;
  cudaGetLastError();
  throw unsupported{fmt::format(
      "device_kind::cuda: no CUDA device here ({}); check nvidia-smi, the driver (580 or later) and "
      "CUDA_VISIBLE_DEVICES, or use device_kind::cpu",
      status == cudaSuccess ? "0 devices" : cudaGetErrorString(status))};
}

std::string device_name(int ordinal) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, ordinal), fmt::format("asking what device {} is", ordinal));
  return properties.name;
}

bool same(const device_identity& a, const device_identity& b) {
  return std::memcmp(a.uuid, b.uuid, sizeof a.uuid) == 0;
}

/// The device's ordinal in this process; nothing if CUDA_VISIBLE_DEVICES hides it from us.
std::optional<int> find_here(const device_identity& wanted) {
  const int count = count_devices();
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, i), fmt::format("asking what device {} is", i));
    if (std::memcmp(properties.uuid.bytes, wanted.uuid, sizeof wanted.uuid) == 0) return i;
  }
  return std::nullopt;
}

/// Whether the hardware lets `own` write into the memory of rank `peer`'s device. A device that is hidden
/// from this process cannot be asked about; mapping its memory will tell.
void require_peer_access(const detail::world_state& state, int peer, const device_identity& theirs) {
  const std::optional<int> ordinal =
      state.in_process ? std::optional<int>{theirs.ordinal} : find_here(theirs);
  if (!ordinal || *ordinal == state.device_index) return;
  int can = 0;
  check(cudaDeviceCanAccessPeer(&can, state.device_index, *ordinal),
        fmt::format("asking whether device {} reaches device {}", state.device_index, *ordinal));
  if (can == 0)
    throw unsupported{
        fmt::format("device {} ({}) of rank {} cannot reach the memory of device {} ({}) of rank {}: no peer "
                    "access. Use GPUs that "
                    "NVLink connects (nvidia-smi topo -m), or fewer ranks",
                    state.device_index, device_name(state.device_index), state.rank, *ordinal,
                    device_name(*ordinal), peer)};
}

struct device_reports {
  int device = 0;
  stuck_record* record = nullptr;
  std::uint32_t* abort = nullptr;
  wait_log* log = nullptr;
  device_reports() = default;
  device_reports(const device_reports&) = delete;
  device_reports& operator=(const device_reports&) = delete;
  ~device_reports() {
    // Nothing to be done about failures: the process may be past the end of the CUDA runtime.
    if (log != nullptr) cudaFree(log);
    if (abort != nullptr) cudaFree(abort);
    if (record != nullptr) cudaFreeHost(record);
  }
};

void open_reports(detail::world_state& state) {
  const device_guard guard{state.device_index};
  auto memory = std::make_shared<device_reports>();
  void *record = nullptr, *record_device = nullptr, *abort = nullptr, *log = nullptr;
  check(cudaHostAlloc(&record, sizeof(stuck_record), cudaHostAllocMapped | cudaHostAllocPortable),
        "allocating the stuck record in mapped host memory");
  memory->record = static_cast<stuck_record*>(record);
  *memory->record = {};
  check(cudaHostGetDevicePointer(&record_device, record, 0), "mapping the stuck record");
  check(cudaMalloc(&abort, sizeof(std::uint32_t)), "allocating the abort word");
  memory->abort = static_cast<std::uint32_t*>(abort);
  check(cudaMalloc(&log, sizeof(wait_log)), "allocating the log of waits");
  memory->log = static_cast<wait_log*>(log);
  fill_now(state.device_index, log, 0, sizeof(wait_log));
  state.reports = {memory->record, static_cast<stuck_record*>(record_device), memory->abort, memory->log};
  state.owned = std::move(memory);
  clear_abort(state);
}

}  // namespace

device_identity identify(int ordinal) {
  const int count = count_devices();
  if (ordinal < 0 || ordinal >= count)
    throw unsupported{fmt::format("device_index: {}, expected 0 to {}: this process sees {} CUDA device{}",
                                  ordinal, count - 1, count, count == 1 ? "" : "s")};
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, ordinal), fmt::format("asking what device {} is", ordinal));
  if (properties.major != 9 || properties.minor != 0)
    throw unsupported{fmt::format(
        "device {} ({}) has compute capability {}.{}; baton's kernels are built for 9.0 (H100, H200, GH200)",
        ordinal, properties.name, properties.major, properties.minor)};
  device_identity id;
  id.ordinal = ordinal;
  std::memcpy(id.uuid, properties.uuid.bytes, sizeof id.uuid);
  return id;
}

int default_ordinal(int local_rank) {
  return local_rank % count_devices();
}

void set_up(detail::world_state& state, std::span<const device_identity> all) {
  const device_identity& own = all[static_cast<std::size_t>(state.rank)];
  state.device_index = own.ordinal;
  state.ranks_on_device = static_cast<int>(
      std::count_if(all.begin(), all.end(), [&](const device_identity& d) { return same(d, own); }));
  state.devices.clear();
  if (state.in_process)
    for (const device_identity& d : all) state.devices.push_back(d.ordinal);
  for (int r = 0; r < state.size; ++r) require_peer_access(state, r, all[static_cast<std::size_t>(r)]);
  open_reports(state);
}

void wait_for_stream(const detail::world_state& state, stream_ref stream) {
  const device_guard guard{state.device_index};
  check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream.native)),
        fmt::format("waiting for the work of rank {} on device {}", state.rank, state.device_index));
}

void chain(const detail::world_state& state, stream_ref earlier, stream_ref later) {
  const device_guard guard{state.device_index};
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making the event between two streams");
  const std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, decltype(&cudaEventDestroy)> owner{
      event, &cudaEventDestroy};
  check(cudaEventRecord(event, static_cast<cudaStream_t>(earlier.native)),
        "recording the event between two streams");
  check(cudaStreamWaitEvent(static_cast<cudaStream_t>(later.native), event), "chaining two streams");
}

void wait_for_device(const detail::world_state& state) {
  const device_guard guard{state.device_index};
  check(cudaDeviceSynchronize(), fmt::format("waiting for all work of device {}, which rank {} is on",
                                             state.device_index, state.rank));
}

void drain(const detail::world_state& state) noexcept {
  // Nothing to be done about failures: kernels that died have left the memory, and the process may be past the end of the
  // CUDA runtime.
  int before = 0;
  if (cudaGetDevice(&before) == cudaSuccess && cudaSetDevice(state.device_index) == cudaSuccess) {
    cudaDeviceSynchronize();
    cudaSetDevice(before);
  }
  cudaGetLastError();
}

void clear_abort(const detail::world_state& state) {
  fill_now(state.device_index, state.reports.abort_device, 0, sizeof(std::uint32_t));
}

int num_sms(const detail::world_state& state) {
  int count = 0;
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, state.device_index),
        fmt::format("asking how many SMs device {} has", state.device_index));
  return std::max(1, count / state.ranks_on_device);
}

}  // namespace baton::on_cuda
