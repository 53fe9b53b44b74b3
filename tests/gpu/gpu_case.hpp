#pragma once
// What the tests of one GPU share: a skip with its reason, memory both sides see, and one launch.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace baton::test {

inline void must(cudaError_t status, const char* doing) {
  if (status != cudaSuccess) throw std::runtime_error{std::string{doing} + ": " + cudaGetErrorString(status)};
}

/// Base of suites that need a GPU: skips, saying why, where there is none.
class gpu_case : public ::testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    const cudaError_t status = cudaGetDeviceCount(&devices);
    if (status != cudaSuccess || devices == 0)
      GTEST_SKIP() << "no CUDA device: "
                   << (status != cudaSuccess ? cudaGetErrorString(status) : "none found");
  }
};

/// `count` zeroed T in pinned host memory that the device addresses too.
template <class T>
class both_sides {
 public:
  explicit both_sides(std::size_t count) : count_{count} {
    void* p = nullptr;
    must(cudaHostAlloc(&p, (count > 0 ? count : 1) * sizeof(T), cudaHostAllocMapped | cudaHostAllocPortable),
         "allocating pinned memory");
    data_ = static_cast<T*>(p);
    std::memset(p, 0, count * sizeof(T));
  }
  explicit both_sides(const std::vector<T>& from) : both_sides{from.size()} {
    for (std::size_t i = 0; i < from.size(); ++i) data_[i] = from[i];
  }
  both_sides(const both_sides&) = delete;
  both_sides& operator=(const both_sides&) = delete;
  ~both_sides() { cudaFreeHost(data_); }

  T* data() const { return data_; }
  std::size_t size() const { return count_; }
  T& operator[](std::size_t i) const { return data_[i]; }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

/// Waits for the device; the first error of anything enqueued is thrown.
inline void finish() {
  must(cudaGetLastError(), "launching");
  must(cudaDeviceSynchronize(), "running");
}

}  // namespace baton::test
