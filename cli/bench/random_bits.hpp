#pragma once
#include <cstdint>

namespace baton::cli {

/// splitmix64: small, fast, and the same everywhere.
class random_bits {
 public:
  explicit random_bits(std::uint64_t seed) : state_{seed} {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// In [0, bound).
  std::int32_t below(int bound) {
    return static_cast<std::int32_t>((next() >> 32) * static_cast<std::uint64_t>(bound) >> 32);
  }
  /// In [0, 1), from 16 of the bits.
  static float unit(std::uint64_t bits) { return static_cast<float>(bits & 0xffffu) * 0x1p-16f; }
  /// In [0, 1), from 53 of them.
  static double unit_53(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

}  // namespace baton::cli
