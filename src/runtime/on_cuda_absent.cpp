#include "baton/error.hpp"
#include "runtime/on_cuda.hpp"

namespace baton::on_cuda {
namespace {

[[noreturn]] void refuse() {
  throw unsupported{
      "device_kind::cuda: this build of baton has no CUDA. Install the CUDA toolkit 13 and build with "
      "-DBATON_CUDA=ON, or use device_kind::cpu"};
}

}  // namespace

device_identity identify(int) {
  refuse();
}
int default_ordinal(int) {
  refuse();
}
void set_up(detail::world_state&, std::span<const device_identity>) {
  refuse();
}
void wait_for_stream(const detail::world_state&, stream_ref) {
  refuse();
}
void chain(const detail::world_state&, stream_ref, stream_ref) {
  refuse();
}
void wait_for_device(const detail::world_state&) {
  refuse();
}
void drain(const detail::world_state&) noexcept {}
void clear_abort(const detail::world_state&) {
  refuse();
}
std::shared_ptr<std::byte> allocate(const detail::world_state&, std::size_t, const memory_use&) {
  refuse();
}
std::unique_ptr<symmetric_window> make_window(const world&, const bootstrap::group&, std::size_t,
                                              const memory_use&) {
  refuse();
}
void copy_now(const detail::world_state&, void*, const void*, std::size_t) {
  refuse();
}
void fill_now(int, void*, unsigned char, std::size_t) {
  refuse();
}
void copy(const detail::world_state&, void*, const void*, std::size_t, stream_ref) {
  refuse();
}
void fill(const detail::world_state&, void*, unsigned char, std::size_t, stream_ref) {
  refuse();
}
int num_sms(const detail::world_state&) {
  refuse();
}
bool reaches(const detail::world_state&, const void*) {
  refuse();
}
void launch(int, const named_entry&, const launch_grid&, const void*, launched_by, stream_ref) {
  refuse();
}
int most_clusters(int, const void*, const launch_grid&) {
  refuse();
}

tensor_map make_tensor_map(const tensor_boxes&, int) {
  refuse();
}

}  // namespace baton::on_cuda
