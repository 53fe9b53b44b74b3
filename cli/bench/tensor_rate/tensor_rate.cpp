#include "cli/bench/tensor_rate/tensor_rate.hpp"

#include <limits>
#include <random>

#include "cli/bench/tensor_rate/params.hpp"
#include "runtime/launch_on_cuda.hpp"
#include "runtime/world_state.hpp"

namespace baton::tensor_rate {

struct tensor_rate_kernel;  // device code: kernel.cuh

namespace {

constexpr int steps = 2000;  // about a millisecond

std::vector<bfloat16> operand_values() {
  std::mt19937 random{1};
  std::normal_distribution<float> normal;
  std::vector<bfloat16> values(static_cast<std::size_t>(operand_rows) * operand_tile::columns);
  for (bfloat16& v : values) v = bfloat16{normal(random)};
  return values;
}

}  // namespace

session::session(const world& w)
    : world_{w},
      blocks_{w.device() == device_kind::cuda ? sms_of(w) : 0},
      values_{w, operand_values()},
      found_{w, 1} {
  if (blocks_ == 0) throw unsupported{"tensor cores are measured on GPUs only"};
}

void session::enqueue(stream_ref stream) const {
  const launch_grid grid{.blocks = blocks_, .threads = groups * group_threads, .shared_bytes = shared_bytes};
  const params p{reinterpret_cast<const vec16*>(values_.data()), steps, found_.data(),
                 std::numeric_limits<float>::max()};
  launch_on_cuda<tensor_rate_kernel>(world_, grid, p, world_.state().limits(), stream);
}

double session::flops() const {
  return 2.0 * group_rows * columns * operand_tile::columns * groups * blocks_ * steps;
}

}  // namespace baton::tensor_rate
