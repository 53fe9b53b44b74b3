#include <algorithm>

#include "sim/context.hpp"
#include "sim/machine_state.hpp"

namespace baton::sim {

void context::store_lines(std::byte* to, const lanes<vec16>& v) {
  scheduling_point();
  for (int line = 0; line < lines_of_access; ++line) {
    vec16 whole[lanes_of_line];
    for (int i = 0; i < lanes_of_line; ++i) whole[i] = v[line * lanes_of_line + i];
    std::byte* at = to + line * line_bytes;
    if (delays_) {
      delayed_write(at, whole, line_bytes);
    } else {
      std::memcpy(at, whole, line_bytes);
    }
  }
  changed();
  after_signal();
}

context::lanes<vec16> context::load_lines(const std::byte* from) {
  before_read(from, line_access_bytes);
  lanes<vec16> v;
  std::memcpy(v.value, from, line_access_bytes);
  return v;
}

}  // namespace baton::sim
