// Without CUDA in the build.
#include "baton/error.hpp"
#include "runtime/nvshmem.hpp"

namespace baton {
namespace {

[[noreturn]] void refuse() {
  throw unsupported{"p2p_group_size: ranks beyond the group need CUDA on GPUs, and this build has none"};
}

}  // namespace

std::unique_ptr<symmetric_window> make_window_beyond(const world&, std::size_t, int, const std::string&,
                                                     const std::string&) {
  refuse();
}
void launch_beyond(const world&, const nvshmem_launch&) {
  refuse();
}

}  // namespace baton
