#pragma once
// What the kernels of every layout are given: passed by value, as all their parameters. H as in shape.hpp.
#include "base/macros.hpp"
#include "kernels/ep/shape.hpp"

namespace baton::ep {

/// One pointer for each rank of the p2p group, as this rank addresses it.
template <class T>
struct peer_array {
  T* at[max_ranks];
};

/// The default input scales: a tensor, or none.
struct tensor_scales {
  const float* scales;  // [H / 128] or null
  BATON_FN bool present() const { return scales != nullptr; }
  BATON_FN float operator()(int block) const { return scales[block]; }
};

}  // namespace baton::ep
