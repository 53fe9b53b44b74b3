#include "base/add_weighted.hpp"

#include "base/whole_arrays.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define BATON_FINDS_FMA
#endif

namespace baton {

#if defined(BATON_FINDS_FMA)
namespace {

// x86-64 says nothing of fused multiply-adds, so that the compiler has to call libm for one. A switch of the compiler
// for this file would end the program on a CPU without them.
__attribute__((target("avx2,fma"))) BATON_QUICK void add_weighted_at_once(float (&sum)[8], float weight,
                                                                          const std::uint32_t (&values)[4]) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(values));
  const __m256 columns = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  _mm256_storeu_ps(sum, _mm256_fmadd_ps(_mm256_set1_ps(weight), columns, _mm256_loadu_ps(sum)));
}

// False until it is initialised, which costs who comes earlier time and no bit.
const bool has_fma = [] {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}();

}  // namespace

void add_weighted(float (&sum)[8], float weight, const std::uint32_t (&values)[4]) {
  return has_fma ? add_weighted_at_once(sum, weight, values) : add_weighted_by_column(sum, weight, values);
}
#else
void add_weighted(float (&sum)[8], float weight, const std::uint32_t (&values)[4]) {
  add_weighted_by_column(sum, weight, values);
}
#endif

}  // namespace baton
