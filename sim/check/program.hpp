#pragma once
// The small program under test, built afresh for every execution: warps, their shared state, and what must
// hold at the end.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/check/allocations.hpp"
#include "sim/check/findings.hpp"
#include "sim/check/names.hpp"
#include "sim/check/operation.hpp"

namespace baton::check {

class context;

/// Zeroed memory that has the same addresses in every execution. Nothing lies right behind a piece of it.
class arena {
 public:
  static constexpr std::size_t alignment = 256;

  void* take(std::size_t bytes);
  void reset();
  /// The bytes in use, chunk by chunk.
  template <class F>
  void each_range(F f) const {
    for (const chunk& c : chunks_)
      if (c.used > 0) f(c.memory.get(), c.used + alignment);
  }

 private:
  struct chunk {
    std::unique_ptr<std::byte[]> memory;
    std::size_t size = 0, used = 0;
  };
  std::vector<chunk> chunks_;
  std::size_t current_ = 0;
};

class program {
 public:
  using body = std::function<void(context&)>;

  program(arena& memory, allocations& allocated, name_table& names, findings& found)
      : arena_{memory}, allocated_{allocated}, names_{names}, found_{found} {}

  /// One warp. Blocks and warps of a rank are numbered from 0 without holes; at most max_warps in all.
  void spawn(int rank, int block, int warp, body run);

  /// `count` zeroed T, alive until the execution ends; named in counterexamples.
  template <class T>
  T* allocate(std::size_t count, std::string name) {
    static_assert(std::is_trivially_copyable_v<T>);
    T* first = static_cast<T*>(arena_.take(count * sizeof(T)));
    allocated_.add(first, count * sizeof(T));
    names_.add(first, sizeof(T), count, std::move(name));
    return first;
  }

  /// Names memory; what is not from allocate() may be accessed because of it, and the execution must find it as the
  /// one before did.
  template <class T>
  void name(const T* first, std::string name, std::size_t count = 1) {
    allocated_.add(first, count * sizeof(T));
    names_.add(first, sizeof(T), count, std::move(name));
  }

  /// What cells are called in counterexamples.
  auto names() const {
    return [this](const void* cell) { return names_.of(cell); };
  }

  /// Bytes of shared() for each block; 0 unless set. Every kernel finds garbage there.
  void shared_memory(std::size_t bytes) { shared_bytes_ = bytes; }

  /// Names a part of every block's shared memory: `count` cells of `element_bytes` from `offset` on.
  void name_shared(std::size_t offset, std::size_t element_bytes, std::size_t count, std::string name) {
    shared_names_.push_back({offset, element_bytes, count, std::move(name)});
  }

  /// Kernels may begin with next_kernel_early().
  void kernels_begin_early() { begins_early_ = true; }

  /// Blocks of a cluster; 1 unless set. Must divide the blocks of every rank.
  void clusters_of(int blocks) { cluster_ = blocks; }

  /// Runs after every warp has returned; may look at memory directly.
  void at_end(std::function<void()> assertion) { at_end_.push_back(std::move(assertion)); }

  /// For bodies and end assertions: `text` is the finding if the promise does not hold.
  void require(bool promise, const char* text) {
    if (!promise) found_.add(verdict::broken_promise, text);
  }

 private:
  friend class execution;
  struct shared_name {
    std::size_t offset, element_bytes, count;
    std::string name;
  };
  struct spawned {
    position where;
    body run;
  };
  arena& arena_;
  allocations& allocated_;
  name_table& names_;
  findings& found_;
  std::vector<spawned> warps_;
  std::vector<std::function<void()>> at_end_;
  std::vector<shared_name> shared_names_;
  std::size_t shared_bytes_ = 0;
  int cluster_ = 1;
  bool begins_early_ = false;
};

}  // namespace baton::check
