#pragma once
// Names for addresses and warps in findings and counterexamples.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/check/operation.hpp"

namespace baton::check {

class name_table {
 public:
  /// `count` elements of `element_bytes` each at `first`: name, or name[i] if there are several.
  void add(const void* first, std::size_t element_bytes, std::size_t count, std::string name);
  void clear() { ranges_.clear(); }
  std::string of(const void* address) const;

 private:
  struct range {
    std::uintptr_t first;
    std::size_t element_bytes, count;
    std::string name;
  };
  std::vector<range> ranges_;
};

/// "rank 0 block 1 warp 2"
std::string name(const position& p);
/// "phase 1 open, 2 of 3 arrivals and 16 bytes to come"
std::string phase_text(std::uint64_t mbarrier_word);
const char* name(verb v);
const char* name(order o);
const char* name(scope s);

}  // namespace baton::check
