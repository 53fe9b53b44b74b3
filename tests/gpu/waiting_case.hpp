#pragma once
// What tests of bounded waits share: a record in host-mapped memory and an abort word on the device, as a world holds them.
#include <new>

#include "exec/wait.hpp"
#include "tests/gpu/gpu_case.hpp"

namespace baton::test {

class waiting_case : public gpu_case {
 protected:
  explicit waiting_case(std::uint64_t deadline_ns) { limits_.deadline_ns = deadline_ns; }

  void SetUp() override {
    gpu_case::SetUp();
    if (IsSkipped()) return;
    void *host = nullptr, *device = nullptr;
    must(cudaHostAlloc(&host, sizeof(stuck_record), cudaHostAllocMapped), "allocating the record");
    record_ = new (host) stuck_record{};
    must(cudaHostGetDevicePointer(&device, host, 0), "mapping the record");
    limits_.record = static_cast<stuck_record*>(device);
    must(cudaMalloc(reinterpret_cast<void**>(&limits_.abort), 4), "allocating the abort word");
    set_abort(0);
  }
  void TearDown() override {
    if (record_ != nullptr) cudaFreeHost(record_);
    if (limits_.abort != nullptr) cudaFree(limits_.abort);
  }
  void set_abort(std::uint32_t value) const {
    must(cudaMemcpy(limits_.abort, &value, 4, cudaMemcpyHostToDevice), "setting the abort word");
  }
  std::uint32_t abort_word() const {
    std::uint32_t value = 0;
    must(cudaMemcpy(&value, limits_.abort, 4, cudaMemcpyDeviceToHost), "reading the abort word");
    return value;
  }

  stuck_record* record_ = nullptr;
  wait_limits limits_{};
};

}  // namespace baton::test
