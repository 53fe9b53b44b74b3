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

/// Division by a number that is known before the kernel starts: a multiplication and a shift, as Granlund and Montgomery
/// showed. For numbers from 0 to 2^31 - 1.
class divider {
 public:
  constexpr divider() = default;
  constexpr explicit divider(int by) : by_{static_cast<std::uint32_t>(by)} {
    while ((1u << shift_) < by_) ++shift_;
    const std::uint64_t excess = (std::uint64_t{1} << shift_) - by_;
    factor_ = static_cast<std::uint32_t>((excess << 32) / by_ + 1);
  }
  constexpr int quotient(int of) const {
    const auto n = static_cast<std::uint32_t>(of);
    const auto high = static_cast<std::uint32_t>(std::uint64_t{n} * factor_ >> 32);
    return static_cast<int>((high + n) >> shift_);
  }
  constexpr int remainder(int of) const { return of - quotient(of) * static_cast<int>(by_); }

 private:
  std::uint32_t by_ = 1, factor_ = 1, shift_ = 0;
};

/// `to` is a power of two.
constexpr int align_up_to_power(int a, int to) {
  return (a + to - 1) & -to;
}

}  // namespace baton
