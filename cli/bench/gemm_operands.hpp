#pragma once
// Matrices to be multiplied by what is measured, and which of the results are looked at.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "baton/device_buffer.hpp"
#include "baton/numeric.hpp"

namespace baton::cli {

/// Values with which every sum of a product is exact, small integers, or powers of two where they are scales (float); the same
/// ones again and again, so that gigabytes are made by copies on the device. The period is prime: no two rows of a matrix are the
/// same, and no two matrices of a pile.
template <class T>
class gemm_operand {
 public:
  /// @throws out_of_memory  names `use`
  gemm_operand(const world& world, std::size_t count, std::uint32_t seed, const memory_use& use);

  /// From here on normally distributed, scales within a factor of two: a GPU's clock goes by how many bits flip.
  void random_values();
  const T* data() const { return values_.data(); }
  double at(std::size_t i) const {
    return static_cast<double>(static_cast<float>(period_[i % period_.size()]));
  }
  /// `count` values from the first one on, behind those of `to`.
  void append(std::size_t first, std::size_t count, std::vector<T>& to) const {
    to.reserve(to.size() + count);
    for (std::size_t i = first % period_.size(), left = count; left > 0; i = 0) {
      const std::size_t some = std::min(left, period_.size() - i);
      to.insert(to.end(), period_.begin() + static_cast<std::ptrdiff_t>(i),
                period_.begin() + static_cast<std::ptrdiff_t>(i + some));
      left -= some;
    }
  }
  /// The values from the first one on.
  void read(std::size_t first, std::span<double> to) const {
    std::size_t i = first % period_.size();
    for (double& v : to) {
      v = static_cast<double>(static_cast<float>(period_[i]));
      if (++i == period_.size()) i = 0;
    }
  }

 private:
  void repeat();

  world world_;
  std::uint32_t seed_;
  std::vector<T> period_;
  device_buffer<T> values_;
};
extern template class gemm_operand<bfloat16>;
extern template class gemm_operand<float16>;
extern template class gemm_operand<float8_e4m3>;
extern template class gemm_operand<float>;

/// In double precision: sum over l below k of a[a_from + l] * b[b_from + l * b_step].
template <class T>
double dot(const gemm_operand<T>& a, std::size_t a_from, const gemm_operand<T>& b, std::size_t b_from,
           std::size_t k, std::size_t b_step = 1) {
  double sum = 0;
  for (std::size_t l = 0; l < k; ++l) sum += a.at(a_from + l) * b.at(b_from + l * b_step);
  return sum;
}

/// 256 places that are spread out over `count` values, 1 / 257 of them apart, and the last: 257 is prime, so these are rows and
/// columns of all remainders.
std::vector<std::size_t> spread_out(std::size_t count);

/// The first place whose value is not what is expected there: "c[3, 5] = 2, expected 4". Empty: all are right. c is [.., n], on
/// the device of `world`.
template <class Out>
std::string first_wrong_value(const world& world, const Out* c, std::size_t n,
                              const std::vector<std::size_t>& places,
                              const std::function<double(std::size_t row, std::size_t column)>& expected);

extern template std::string first_wrong_value(const world&, const bfloat16*, std::size_t,
                                              const std::vector<std::size_t>&,
                                              const std::function<double(std::size_t, std::size_t)>&);
extern template std::string first_wrong_value(const world&, const float16*, std::size_t,
                                              const std::vector<std::size_t>&,
                                              const std::function<double(std::size_t, std::size_t)>&);
extern template std::string first_wrong_value(const world&, const float*, std::size_t,
                                              const std::vector<std::size_t>&,
                                              const std::function<double(std::size_t, std::size_t)>&);

}  // namespace baton::cli
