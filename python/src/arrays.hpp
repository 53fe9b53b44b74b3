#pragma once
// Arrays of Python as memory for the library: numpy's, and whatever else speaks DLPack.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "baton/world.hpp"

namespace baton::python {

namespace nb = nanobind;

enum class element { fp32, fp16, bf16, e4m3, e8m0, int32, int64, uint8 };

/// Where memory lies: rows of as many bytes each, that begin so many apart.
struct byte_rows {
  std::uintptr_t begin = 0;
  std::int64_t count = 0, bytes = 0, apart = 0;
};
bool share_bytes(byte_rows a, byte_rows b);

/// Keeps the memory of an array that the library was given, and knows what as.
class kept_array {
 public:
  kept_array() = default;
  explicit kept_array(nb::object of) : of_{std::move(of)} {}
  explicit kept_array(nb::ndarray<nb::ro> memory) : memory_{std::move(memory)} {}
  bool is_valid() const { return of_.is_valid() || memory_.is_valid(); }

  /// `name` outlives it.
  void note(const char* name, const byte_rows& at, bool is_written) {
    name_ = name;
    at_ = at;
    is_written_ = is_written;
  }
  const char* name() const { return name_; }
  const byte_rows& at() const { return at_; }
  bool is_written() const { return is_written_; }

 private:
  nb::object of_;  // the framework's own
  nb::ndarray<nb::ro> memory_;
  const char* name_ = "";
  byte_rows at_;
  bool is_written_ = false;
};

/// What one call writes has memory of its own.
/// @throws invalid_argument  names it and the other argument that lies there
void require_apart(const kept_array& written, std::span<const kept_array> others);

/// The same of each that a call writes, and all others of the call.
void require_apart(std::span<const kept_array> used);

/// A shape of as many dimensions as arguments have.
class extents {
 public:
  static constexpr std::size_t most = 4;

  extents() = default;
  extents(std::initializer_list<std::int64_t> values) : count_{values.size()} {
    std::copy(values.begin(), values.end(), values_.begin());
  }
  /// Of an array that has as many dimensions.
  void become(const std::int64_t* shape) { std::copy_n(shape, count_, values_.begin()); }
  std::int64_t operator[](std::size_t i) const { return values_[i]; }
  const std::int64_t* begin() const { return values_.data(); }
  const std::int64_t* end() const { return values_.data() + count_; }

 private:
  std::array<std::int64_t, most> values_{};
  std::size_t count_ = 0;
};

/// What an argument has to be.
struct expectation {
  const char* name;
  std::initializer_list<element> types;
  extents shape;  // -1: any extent
  bool is_written = false;
  int rows_of = 0;  // the first so many dimensions count rows, between which there may be gaps; 0: contiguous
  int alignment = 1;  // in bytes, of where it begins; an element's own is asked for anyway
};

struct array {
  void* data = nullptr;
  element type = element::fp32;
  extents shape;
  kept_array memory;
  std::int64_t row_stride = 0;  // in elements, where rows_of asked for it; 0: no gaps
};

/// `given` as it is, without a copy: contiguous, on the world's device.
/// @throws invalid_argument  names the argument, what was expected and what was found
array array_of(nb::handle given, const expectation& expected, const world& rank);

/// One that may be None.
array optional_array(nb::handle given, const expectation& expected, const world& rank);

/// What the library has of memory that lies in rows.
struct layout {
  const void* data = nullptr;
  element type = element::fp32;
  std::vector<std::size_t> shape;
  std::vector<std::int64_t> strides = {};  // in elements; empty: contiguous
};

/// An array of Python over `memory`, which `owner` keeps alive: numpy's on the CPU, on a GPU one that speaks DLPack. Elements
/// of which numpy knows nothing come as unsigned integers of their size, on GPUs with `as_bits`.
nb::object view_of(const layout& memory, const world& rank, nb::handle owner, bool as_bits);

}  // namespace baton::python
