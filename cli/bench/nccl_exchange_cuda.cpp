#include "cli/bench/nccl_exchange.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <cstdlib>
#include <set>

#include "baton/device_buffer.hpp"
#include "baton/error.hpp"
#include "cli/bench/ep_timer.hpp"
#include "cli/bench/loaded_library.hpp"
#include "cli/bench/streams_cuda.hpp"

namespace baton::cli {

namespace {

// NCCL's C interface, as nccl.h has declared it since 2.7; only what an all-to-all needs.
constexpr int nccl_int8 = 0;
struct nccl_comm;

struct nccl_calls {
  int (*get_version)(int*) = nullptr;
  const char* (*get_error_string)(int) = nullptr;
  int (*comm_init_all)(nccl_comm**, int, const int*) = nullptr;
  int (*comm_destroy)(nccl_comm*) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*send)(const void*, std::size_t, int, int, nccl_comm*, cudaStream_t) = nullptr;
  int (*recv)(void*, std::size_t, int, int, nccl_comm*, cudaStream_t) = nullptr;
};

std::optional<nccl_calls> load_nccl(std::string& why_not) {
  setenv("NCCL_NVLS_ENABLE", "0", /*overwrite=*/0);
  loaded_library nccl{"NCCL", "BATON_NCCL", {"libnccl.so.2"}};
  nccl_calls calls;
  nccl.find("ncclGetVersion", calls.get_version);
  nccl.find("ncclGetErrorString", calls.get_error_string);
  nccl.find("ncclCommInitAll", calls.comm_init_all);
  nccl.find("ncclCommDestroy", calls.comm_destroy);
  nccl.find("ncclGroupStart", calls.group_start);
  nccl.find("ncclGroupEnd", calls.group_end);
  nccl.find("ncclSend", calls.send);
  nccl.find("ncclRecv", calls.recv);
  return nccl.complete(calls, why_not);
}

class loaded_nccl : public nccl_exchange {
 public:
  loaded_nccl(std::span<const world> worlds, const nccl_calls& calls)
      : worlds_{worlds}, calls_{calls}, streams_{worlds, 2}, comms_(worlds.size()), buffers_(worlds.size()) {
    must(calls_.get_version(&version_), "ncclGetVersion");
    std::vector<int> devices;
    for (const world& rank : worlds) devices.push_back(rank.device_index());
    must(calls_.comm_init_all(comms_.data(), static_cast<int>(devices.size()), devices.data()),
         "ncclCommInitAll");
  }
  ~loaded_nccl() override {
    for (nccl_comm* comm : comms_) static_cast<void>(calls_.comm_destroy(comm));
  }
  loaded_nccl(const loaded_nccl&) = delete;
  loaded_nccl& operator=(const loaded_nccl&) = delete;

  std::string version() const override {
    return fmt::format("{}.{}.{}", version_ / 10000, version_ / 100 % 100, version_ % 100);
  }

  std::vector<double> time(std::span<const std::uint64_t> bytes, int rounds) override {
    make_room(bytes);
    // The first call of its kind sets up connections and kernels, which must not sit behind the gate.
    if (known_.emplace(bytes.begin(), bytes.end()).second) {
      exchange(bytes);
      streams_.run();
    }
    const int ranks = static_cast<int>(worlds_.size());
    for (int r = 0; r < ranks; ++r) streams_.hold(r);
    for (int i = 0; i < gathering_rounds; ++i) exchange(bytes);
    for (int r = 0; r < ranks; ++r) streams_.record(r, 0);
    for (int i = 0; i < rounds; ++i) exchange(bytes);
    for (int r = 0; r < ranks; ++r) streams_.record(r, 1);
    streams_.run();
    std::vector<double> times;
    for (int r = 0; r < ranks; ++r) times.push_back(streams_.microseconds(r, 0, 1) / rounds);
    return times;
  }

 private:
  struct rank_buffers {
    device_buffer<std::byte> out, in;
  };

  void must(int status, const char* call) const {
    if (status != 0)
      throw cuda_error{
          fmt::format("{}: {}; NCCL_DEBUG=WARN says more", call, calls_.get_error_string(status))};
  }

  void make_room(std::span<const std::uint64_t> bytes) {
    const std::size_t ranks = worlds_.size();
    for (std::size_t r = 0; r < ranks; ++r) {
      std::size_t out = 1, in = 1;
      for (std::size_t peer = 0; peer < ranks; ++peer) {
        if (peer == r) continue;
        out += bytes[r * ranks + peer];
        in += bytes[peer * ranks + r];
      }
      if (buffers_[r].out.size() >= out && buffers_[r].in.size() >= in) continue;
      const memory_use use{"buffers of the NCCL comparison", "use fewer --tokens"};
      buffers_[r] = {{worlds_[r], out, use}, {worlds_[r], in, use}};
    }
  }

  void exchange(std::span<const std::uint64_t> bytes) {
    const std::size_t ranks = worlds_.size();
    must(calls_.group_start(), "ncclGroupStart");
    for (std::size_t r = 0; r < ranks; ++r) {
      const cudaStream_t stream = streams_.stream(static_cast<int>(r));
      std::byte* out = buffers_[r].out.data();
      std::byte* in = buffers_[r].in.data();
      for (std::size_t peer = 0; peer < ranks; ++peer) {
        if (peer == r) continue;
        const std::uint64_t away = bytes[r * ranks + peer], here = bytes[peer * ranks + r];
        must(calls_.send(out, away, nccl_int8, static_cast<int>(peer), comms_[r], stream), "ncclSend");
        must(calls_.recv(in, here, nccl_int8, static_cast<int>(peer), comms_[r], stream), "ncclRecv");
        out += away;
        in += here;
      }
    }
    must(calls_.group_end(), "ncclGroupEnd");
  }

  std::span<const world> worlds_;
  nccl_calls calls_;
  int version_ = 0;
  rank_streams streams_;
  std::vector<nccl_comm*> comms_;
  std::vector<rank_buffers> buffers_;
  std::set<std::vector<std::uint64_t>> known_;  // sizes exchanged before
};

}  // namespace

std::unique_ptr<nccl_exchange> open_nccl(std::span<const world> worlds, std::string& why_not) {
  why_not.clear();
  std::set<int> devices;
  for (const world& rank : worlds) devices.insert(rank.device_index());
  if (worlds[0].device() == device_kind::cpu)
    why_not = "the ranks run on the CPU";
  else if (worlds.size() < 2)
    why_not = "one rank has nobody to exchange with";
  else if (devices.size() < worlds.size())
    why_not = "ranks share a GPU, which NCCL refuses";
  if (!why_not.empty()) return nullptr;
  const std::optional<nccl_calls> calls = load_nccl(why_not);
  if (!calls) return nullptr;
  return std::make_unique<loaded_nccl>(worlds, *calls);
}

}  // namespace baton::cli
