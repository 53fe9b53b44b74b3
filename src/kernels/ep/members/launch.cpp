#include "kernels/ep/members/launch.hpp"

#include "kernels/ep/members/kernel.hpp"
#include "kernels/launch.hpp"

namespace baton::ep::members {

void launch(const world& w, const params& p, stream_ref stream) {
  baton::launch<kernel>(w, {.blocks = 1, .threads = warp_lanes}, p, stream);
}

}  // namespace baton::ep::members
