#pragma once
// What an execution did wrong: the first thing counts.
#include <cstdint>
#include <string>
#include <utility>

namespace baton::check {

enum class verdict : std::uint8_t {
  none,
  data_race,         // two accesses, one of them a plain one, without order between them
  scope_race,        // two atomic accesses of one word without order that do not see each other's scope
  unordered_stores,  // a store that nothing orders after the one it replaces
  counter_misuse,    // a look at a counter while others count: what it sees depends on their order
  garbage_read,      // shared memory that nobody has written since the kernel began
  outside_memory,    // an access to what the program has not allocated, or to another block's shared memory
  deadlock,          // everybody left waits for a value that nobody will store
  mbarrier_misuse,   // an arrival that the mbarrier does not expect, or whose phase depends on the schedule
  loose_end,         // a block may end while something is still on its way to it
  divergence,        // a warp ended while the rest of its block or rank waits for it at a barrier
  broken_promise,    // program::require or an end assertion failed
  mixed_size,        // one address as words of two sizes, or a misaligned word
  too_long,          // more steps than bounds::max_steps: no bound on this execution is known
  thrown,            // a body threw
  not_reproducible,  // a schedule did not repeat itself: build does not renew all state
};

inline const char* name(verdict v) {
  switch (v) {
    case verdict::data_race:
      return "data race";
    case verdict::scope_race:
      return "scope race";
    case verdict::unordered_stores:
      return "unordered stores";
    case verdict::counter_misuse:
      return "counter misuse";
    case verdict::garbage_read:
      return "garbage read";
    case verdict::outside_memory:
      return "access outside memory";
    case verdict::deadlock:
      return "deadlock";
    case verdict::mbarrier_misuse:
      return "mbarrier misuse";
    case verdict::loose_end:
      return "loose end";
    case verdict::divergence:
      return "barrier divergence";
    case verdict::broken_promise:
      return "broken promise";
    case verdict::mixed_size:
      return "mixed-size access";
    case verdict::too_long:
      return "execution too long";
    case verdict::thrown:
      return "exception";
    case verdict::not_reproducible:
      return "not reproducible";
    default:
      return "nothing wrong";
  }
}

class findings {
 public:
  void add(verdict what, std::string text) {
    if (what_ != verdict::none) return;
    what_ = what;
    text_ = std::move(text);
  }
  /// A race for want of a proxy fence: no release or acquire would help.
  void add_unfenced(std::string text) {
    if (any()) return;
    add(verdict::data_race, std::move(text));
    is_unfenced_ = true;
  }
  void clear() {
    what_ = verdict::none;
    text_.clear();
    is_unfenced_ = false;
  }
  bool any() const { return what_ != verdict::none; }
  verdict what() const { return what_; }
  const std::string& text() const { return text_; }
  /// A race that an edge between the two would have prevented.
  bool lacks_an_edge() const { return what_ == verdict::data_race && !is_unfenced_; }

 private:
  verdict what_ = verdict::none;
  std::string text_;
  bool is_unfenced_ = false;
};

}  // namespace baton::check
