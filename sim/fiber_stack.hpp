#pragma once
// The stacks that warps run on as fibers.
#include <unistd.h>

#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstddef>
#include <new>
#include <vector>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace baton::sim {

struct stack_bounds {
  const void* bottom = nullptr;
  std::size_t size = 0;
};

/// Tells AddressSanitizer, if it is there, which stack runs: otherwise an exception that unwinds a fiber leaves its frames
/// marked as they were. Around a switch away: constructed before, destroyed when control is back.
class stack_switch {
 public:
  /// `back_from` learns whose stack control came back from, where threads differ.
  explicit stack_switch(const stack_bounds& to, stack_bounds* back_from = nullptr) : back_from_{back_from} {
    start(&frames_, to);
  }
  ~stack_switch() {
#if defined(__SANITIZE_ADDRESS__)
    stack_bounds other;
    __sanitizer_finish_switch_fiber(frames_, &other.bottom, &other.size);
    if (back_from_ != nullptr) *back_from_ = other;
#endif
  }
  stack_switch(const stack_switch&) = delete;
  stack_switch& operator=(const stack_switch&) = delete;

  /// First thing on a new stack: learns where it was called from.
  static void arrive([[maybe_unused]] stack_bounds& from) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &from.bottom, &from.size);
#endif
  }
  /// Last thing on a stack.
  static void leave(const stack_bounds& to) {
    start(nullptr, to);
  }
  /// Nobody is on the stack any more.
  static void forget([[maybe_unused]] const stack_bounds& stack) {
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(stack.bottom, stack.size);
#endif
  }

 private:
  static void start([[maybe_unused]] void** frames, [[maybe_unused]] const stack_bounds& to) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(frames, to.bottom, to.size);
#endif
  }

  [[maybe_unused]] void* frames_ = nullptr;
  [[maybe_unused]] stack_bounds* back_from_;
};

/// What is asked of boost's stack_traits, without it: as Debian compiles that, whatever is linked with it can only be loaded
/// where thread-local memory of libstdc++ has a fixed place, and after PyTorch it has none.
struct page_traits {
  static std::size_t page_size() {
    static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    return size;
  }
};

/// Stacks are kept: mapping one costs more than most kernels here run.
class stack_pool {
 public:
  stack_pool() = default;
  stack_pool(const stack_pool&) = delete;
  stack_pool& operator=(const stack_pool&) = delete;
  ~stack_pool() {
    for (auto& stack : idle_) source_.deallocate(stack);
  }

  boost::context::stack_context take() {
    if (idle_.empty()) return source_.allocate();
    const auto stack = idle_.back();
    idle_.pop_back();
    return stack;
  }
  /// Where a fiber ends nothing may be thrown.
  void give(boost::context::stack_context stack) noexcept {
    try {
      idle_.push_back(stack);
    } catch (const std::bad_alloc&) {
      source_.deallocate(stack);
    }
  }

 private:
  boost::context::basic_protected_fixedsize_stack<page_traits> source_{std::size_t{128} << 10};
  std::vector<boost::context::stack_context> idle_;
};

/// A fiber's stack allocator.
struct pooled_stack {
  stack_bounds* bounds;        // learns which stack it is
  stack_pool* pool = nullptr;  // null: of the thread that starts or ends the fiber, which need not be one

  boost::context::stack_context allocate() {
    const auto stack = any_pool().take();
    *bounds = bounds_of(stack);
    return stack;
  }
  void deallocate(const boost::context::stack_context& stack) {
    stack_switch::forget(bounds_of(stack));
    any_pool().give(stack);
  }

 private:
  stack_pool& any_pool() const {
    static thread_local stack_pool of_this_thread;
    return pool != nullptr ? *pool : of_this_thread;
  }
  static stack_bounds bounds_of(const boost::context::stack_context& stack) {
    return {static_cast<std::byte*>(stack.sp) - stack.size, stack.size};
  }
};

}  // namespace baton::sim
