#pragma once
// Tells AddressSanitizer, if it is there, which stack runs: otherwise an exception that unwinds a fiber leaves
// its frames marked as they were.
#include <cstddef>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace baton::check {

struct stack_bounds {
  const void* bottom = nullptr;
  std::size_t size = 0;
};

/// Around a switch away: constructed before, destroyed when control is back.
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

}  // namespace baton::check
