// Hand-offs through rings of one to eight slots, by every strategy: a kernel for each of hand_off::counts.
#include "cli/bench/hand_off/kernel.cuh"
#include "device/entry.cuh"

namespace baton {

using hand_off::hand_off_kernel;
using hand_off::params;

#define BATON_HAND_OFFS(stages)                                                   \
  BATON_KERNEL(hand_off_kernel<ring_strategy::single_counter, stages>, params);   \
  BATON_KERNEL(hand_off_kernel<ring_strategy::split_counter, stages>, params);    \
  BATON_KERNEL(hand_off_kernel<ring_strategy::per_reader_flags, stages>, params); \
  BATON_KERNEL(hand_off_kernel<ring_strategy::mbarrier, stages>, params)

BATON_HAND_OFFS(1);
BATON_HAND_OFFS(2);
BATON_HAND_OFFS(4);
BATON_HAND_OFFS(8);

}  // namespace baton
