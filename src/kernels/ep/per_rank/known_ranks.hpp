#pragma once
// The numbers of ranks that kernels are compiled for, beside those that take any.
#include <type_traits>

#include "baton/token_format.hpp"

namespace baton::ep::per_rank {

/// f(n) for each; 0: any.
#define BATON_FOR_KNOWN_RANKS(f) f(0) f(2) f(4) f(8)

/// Whether there is a dispatch for each number of ranks and each kind of ids. Of the formats with scales of one byte there is
/// only that which takes any of both: those for each would be twice as many kernels as all others are.
constexpr bool is_compiled_for_each(token_format format) {
  return facts_of(format).scale_bytes != 1;
}

/// f(a constant: the number of ranks, if kernels are compiled for each and for this one, or 0).
template <bool for_each, class F>
void with_known_ranks(int num_ranks, F f) {
#define BATON_TRY(n) \
  if (n == num_ranks) return f(std::integral_constant<int, n>{});
  if constexpr (for_each) {
    BATON_FOR_KNOWN_RANKS(BATON_TRY)
  }
#undef BATON_TRY
  f(std::integral_constant<int, 0>{});
}

}  // namespace baton::ep::per_rank
