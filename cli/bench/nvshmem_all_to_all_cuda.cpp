#include "cli/bench/nvshmem_all_to_all.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "baton/error.hpp"
#include "cli/bench/loaded_library.hpp"
#include "runtime/device_guard_cuda.hpp"
#include "runtime/error_cuda.hpp"

namespace baton::cli {
namespace {

// NVSHMEM's C interface, as its headers have declared it since 3.0; only what an all-to-all needs.
constexpr std::int32_t team_world = 0;

struct nvshmem_host_calls {
  void* (*allocate)(std::size_t) = nullptr;
  int (*all_to_all)(std::int32_t, void*, const void*, std::size_t, cudaStream_t) = nullptr;
  void (*version)(int*, int*, int*) = nullptr;
};

std::optional<nvshmem_host_calls> load_nvshmem(std::string& why_not) {
  loaded_library host{"NVSHMEM", "BATON_NVSHMEM_HOST", {"libnvshmem_host.so.3"}};
  nvshmem_host_calls calls;
  host.find("nvshmem_malloc", calls.allocate);
  host.find("nvshmemx_alltoallmem_on_stream", calls.all_to_all);
  host.find("nvshmemx_vendor_get_version_info", calls.version);
  return host.complete(calls, why_not);
}

/// Its memory stays in the symmetric heap until the process ends.
class loaded_all_to_all : public nvshmem_all_to_all {
 public:
  loaded_all_to_all(const world& own, std::size_t most_bytes, const nvshmem_host_calls& calls)
      : own_{own}, calls_{calls} {
    const device_guard on{own.device_index()};
    const std::size_t bytes = most_bytes * static_cast<std::size_t>(own.size());
    out_ = static_cast<std::byte*>(calls_.allocate(bytes));
    in_ = static_cast<std::byte*>(calls_.allocate(bytes));
    if (out_ == nullptr || in_ == nullptr)
      throw out_of_memory{
          "buffers of NVSHMEM's all-to-all: use fewer --tokens; where NVSHMEM_DISABLE_CUDA_VMM is set, raise "
          "NVSHMEM_SYMMETRIC_SIZE",
          2 * bytes, 0};
  }

  std::string version() const override {
    int major = 0, minor = 0, patch = 0;
    calls_.version(&major, &minor, &patch);
    return fmt::format("{}.{}.{}", major, minor, patch);
  }

  void enqueue(std::size_t bytes, stream_ref stream) override {
    const device_guard on{own_.device_index()};
    const int status =
        calls_.all_to_all(team_world, in_, out_, bytes, static_cast<cudaStream_t>(stream.native));
    if (status != 0) throw cuda_error{fmt::format("nvshmemx_alltoallmem_on_stream: status {}", status)};
  }

  std::string first_wrong(std::size_t bytes) override {
    const device_guard on{own_.device_index()};
    const std::size_t all = bytes * static_cast<std::size_t>(own_.size());
    check(cudaMemset(out_, 1 + own_.rank(), all), "filling what an all-to-all sends");
    check(cudaMemset(in_, 0, all), "clearing what an all-to-all receives");
    check(cudaDeviceSynchronize(), "waiting for the buffers of an all-to-all");
    char ready = 0;
    std::vector<char> of_all(static_cast<std::size_t>(own_.size()));
    own_.all_gather(&ready, of_all.data(), 1);
    enqueue(bytes, {});
    std::vector<char> got(all);
    check(cudaMemcpy(got.data(), in_, all, cudaMemcpyDeviceToHost), "reading what an all-to-all received");
    for (int from = 0; from < own_.size(); ++from) {
      const auto begin = got.begin() + static_cast<std::ptrdiff_t>(bytes * static_cast<std::size_t>(from));
      if (!std::all_of(begin, begin + static_cast<std::ptrdiff_t>(bytes),
                       [&](char c) { return c == 1 + from; }))
        return fmt::format("rank {} has not what rank {} sent it", own_.rank(), from);
    }
    return {};
  }

 private:
  world own_;
  nvshmem_host_calls calls_;
  std::byte *out_ = nullptr, *in_ = nullptr;
};

}  // namespace

std::unique_ptr<nvshmem_all_to_all> open_nvshmem_all_to_all(const world& own, std::size_t most_bytes,
                                                            std::string& why_not) {
  why_not = own.device() == device_kind::cpu ? "the ranks run on the CPU" : "";
  if (!why_not.empty()) return nullptr;
  const std::optional<nvshmem_host_calls> calls = load_nvshmem(why_not);
  if (!calls) return nullptr;
  return std::make_unique<loaded_all_to_all>(own, most_bytes, *calls);
}

}  // namespace baton::cli
