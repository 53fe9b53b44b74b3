#pragma once
#include <cstddef>
#include <cstdint>

namespace baton {

template <class Int>
constexpr Int ceil_div(Int a, Int b) {
  return (a + b - 1) / b;
}
template <class Int>
constexpr Int align_up(Int a, Int to) {
  return ceil_div(a, to) * to;
}
template <class Int>
constexpr Int smaller(Int a, Int b) {
  return a < b ? a : b;
}
template <class Int>
constexpr Int larger(Int a, Int b) {
  return a < b ? b : a;
}

}  // namespace baton
