#pragma once
// The strategy of a name.
#include "baton/ring_gemm_config.hpp"
#include "protocol/ring/mbarrier_sync.hpp"
#include "protocol/ring/per_reader_flags.hpp"
#include "protocol/ring/single_counter.hpp"
#include "protocol/ring/split_counter.hpp"

namespace baton {

namespace ring_detail {
template <ring_strategy Name, ring_shape Shape>
struct strategy_named {
  using type = mbarrier_sync<Shape>;
};
template <ring_shape Shape>
struct strategy_named<ring_strategy::single_counter, Shape> {
  using type = single_counter_sync<Shape>;
};
template <ring_shape Shape>
struct strategy_named<ring_strategy::split_counter, Shape> {
  using type = split_counter_sync<Shape>;
};
template <ring_shape Shape>
struct strategy_named<ring_strategy::per_reader_flags, Shape> {
  using type = per_reader_flags<Shape>;
};
}  // namespace ring_detail

template <ring_strategy Name, ring_shape Shape>
using strategy_of = typename ring_detail::strategy_named<Name, Shape>::type;

}  // namespace baton
