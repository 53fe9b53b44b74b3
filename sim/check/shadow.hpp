#pragma once
// What is known about each 4 bytes of memory that the program touched: who wrote it plainly, who read it
// plainly, and which atomic word it belongs to.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "sim/check/lanes.hpp"
#include "sim/check/vector_clock.hpp"

namespace baton::check {

struct shadow_cell {
  int word = -1;  // index of the atomic word that covers it
  int writer = -1;
  tick written = 0;
  bool garbage = false;  // a copy has brought what nobody had written
  lane_marks lanes;
  tick_array reads{};
};

/// Cells by address, in pages of neighbours, which programs touch one after the other; forgets everything in constant time
/// between executions. A reference from at() lives as long as the execution.
class shadow {
 public:
  static constexpr std::uintptr_t granularity = 4;

  shadow() : slots_(64) {}
  shadow(const shadow&) = delete;  // slots point at pages
  shadow& operator=(const shadow&) = delete;

  void reset() {
    ++generation_;
    used_ = 0;
    last_key_ = no_page;
    shared_.clear();
    first_shared_ = end_shared_ = 0;
  }

  /// A block's shared memory lies here, and nothing is known of it any more.
  void forget(std::span<const std::byte> memory) {
    const auto first = reinterpret_cast<std::uintptr_t>(memory.data()), end = first + memory.size();
    if (end_shared_ == 0) first_shared_ = first;
    first_shared_ = std::min(first_shared_, first);
    end_shared_ = std::max(end_shared_, end);
    for (const std::uintptr_t address : shared_) {
      if (address >= first && address < end) at(address) = {};
    }
  }
  /// Of some block: they lie side by side.
  bool is_shared(std::uintptr_t address) const { return address >= first_shared_ && address < end_shared_; }

  shadow_cell& at(std::uintptr_t address) {
    const std::uintptr_t key = address / granularity / page_cells;
    if (key != last_key_) turn_to(key);
    const auto nth = static_cast<std::size_t>(address / granularity % page_cells);
    shadow_cell& cell = last_page_->cells[nth];
    if ((last_page_->touched >> nth & 1) == 0) {
      last_page_->touched |= 1u << nth;
      cell = {};
      if (is_shared(address)) shared_.push_back(address / granularity * granularity);
    }
    return cell;
  }

 private:
  static constexpr std::uintptr_t page_cells = 16, no_page = ~std::uintptr_t{0};
  struct page {
    std::uint32_t touched = 0;  // bit i: in this execution, the i-th cell
    std::array<shadow_cell, page_cells> cells;
  };
  struct slot {
    std::uint64_t generation = 0;
    std::uintptr_t key = 0;
    page* cells = nullptr;
  };

  void turn_to(std::uintptr_t key) {
    if (2 * used_ > slots_.size()) grow();
    slot& found = find(slots_, key);
    if (found.generation != generation_) {
      if (used_ == pages_.size()) pages_.emplace_back();
      found = {generation_, key, &pages_[used_++]};
      found.cells->touched = 0;
    }
    last_key_ = key;
    last_page_ = found.cells;
  }

  slot& find(std::vector<slot>& slots, std::uintptr_t key) const {
    const std::size_t mask = slots.size() - 1;
    std::size_t i = (key * 0x9e3779b97f4a7c15ull >> 20) & mask;
    while (slots[i].generation == generation_ && slots[i].key != key) i = (i + 1) & mask;
    return slots[i];
  }

  void grow() {
    std::vector<slot> larger(2 * slots_.size());
    for (slot& s : slots_) {
      if (s.generation == generation_) find(larger, s.key) = s;
    }
    slots_ = std::move(larger);
  }

  std::vector<slot> slots_;
  std::deque<page> pages_;  // the first `used_` of them in this execution
  std::uint64_t generation_ = 1;
  std::size_t used_ = 0;
  std::uintptr_t last_key_ = no_page;  // that was asked for
  page* last_page_ = nullptr;
  std::vector<std::uintptr_t> shared_;  // cells that were touched
  std::uintptr_t first_shared_ = 0, end_shared_ = 0;
};

}  // namespace baton::check
