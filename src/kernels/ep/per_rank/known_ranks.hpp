#pragma once
// The numbers of ranks that kernels are compiled for, beside those that take any.
#include <type_traits>

namespace baton::ep::per_rank {

/// f(n) for each; 0: any.
#define BATON_FOR_KNOWN_RANKS(f) f(0) f(2) f(4) f(8)

/// f(a constant: the number of ranks, if kernels are compiled for it, or 0).
template <class F>
void with_known_ranks(int num_ranks, F f) {
#define BATON_TRY(n) \
  if (n == num_ranks) return f(std::integral_constant<int, n>{});
  BATON_FOR_KNOWN_RANKS(BATON_TRY)
#undef BATON_TRY
  f(std::integral_constant<int, 0>{});
}

}  // namespace baton::ep::per_rank
