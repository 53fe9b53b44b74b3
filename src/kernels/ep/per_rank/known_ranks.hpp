#pragma once
// What kernels are compiled for: numbers of ranks, beside those kernels that take any, and kinds of ids. By flags fewer.
#include <type_traits>

#include "baton/token_format.hpp"
#include "kernels/ep/per_rank/by_flags.hpp"
#include "kernels/ep/per_rank/by_lines.hpp"
#include "kernels/ep/per_rank/endpoint.hpp"

namespace baton::ep::per_rank {

/// f(n) for each; 0: any.
#define BATON_FOR_KNOWN_RANKS(f) f(0) f(2) f(4) f(8)
#define BATON_FOR_KNOWN_RANKS_BY_FLAGS(f) f(0) f(2) f(4)

/// Of combines that send block FP8, too, there are only those for any number of ranks: they are for many tokens, where a round
/// takes long beside what it is worth to know it.
///
/// Whether there is a dispatch for each number of ranks and each kind of ids. Of the formats with scales of one byte there is
/// only that which takes any of both: those for each would be twice as many kernels as all others are.
constexpr bool is_compiled_for_each(token_format format) {
  return facts_of(format).scale_bytes != 1;
}

/// f(a constant: the number of ranks, if kernels are compiled for each and for this one, or 0).
template <class Way, bool for_each, class F>
void with_known_ranks(int num_ranks, F f) {
#define BATON_TRY(n) \
  if (n == num_ranks) return f(std::integral_constant<int, n>{});
  if constexpr (!for_each) {
  } else if constexpr (std::is_same_v<Way, by_flags>) {
    BATON_FOR_KNOWN_RANKS_BY_FLAGS(BATON_TRY)
  } else {
    BATON_FOR_KNOWN_RANKS(BATON_TRY)
  }
#undef BATON_TRY
  f(std::integral_constant<int, 0>{});
}

/// Formats that travel so.
template <class Way>
constexpr bool serves(token_format format) {
  return !std::is_same_v<Way, by_flags> || is_compiled_for_each(format);
}

/// f(a pointer to ids of the kind that kernels are compiled for).
template <class Way, bool for_each, class F>
void with_ids(const round_input& in, F f) {
  const bool is_any = in.replicas.replica_counts != nullptr;
  if constexpr (!for_each) {
    f(static_cast<const any_ids*>(nullptr));
  } else if constexpr (std::is_same_v<Way, by_flags>) {
    if (is_any || in.topk_idx.is_wide) return f(static_cast<const any_ids*>(nullptr));
    f(static_cast<const std::int32_t*>(nullptr));
  } else {
    if (is_any) return f(static_cast<const any_ids*>(nullptr));
    with_width(in.topk_idx, f);
  }
}

}  // namespace baton::ep::per_rank
