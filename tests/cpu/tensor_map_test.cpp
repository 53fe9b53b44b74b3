// Tensor maps: what of a matrix is refused before a device is told of it.
#include "runtime/tensor_map.hpp"

#include <gtest/gtest.h>

#include "baton/error.hpp"
#include "sim/tensor_map.hpp"
#include "tests/cpu/says.hpp"

namespace baton {
namespace {

alignas(16) std::byte memory[64];

tensor_layout fine() {
  return {.base = memory, .element_bytes = 2, .columns = 8, .rows = 4, .row_bytes = 16, .box_rows = 64};
}

TEST(tensor_map, the_cpus_map_is_the_layout) {
  const auto worlds = world::local(1, device_kind::cpu);
  const tensor_boxes made = sim::boxes_of(make_tensor_map(worlds[0], fine()));
  EXPECT_EQ(made.base, memory);
  EXPECT_EQ(made.extents[0], 8);
  EXPECT_EQ(made.box_rows(), 64);
}

TEST(tensor_map, what_the_copy_engine_cannot_move_is_refused_by_name) {
  const auto worlds = world::local(1, device_kind::cpu);
  const auto refusal = [&](auto change) {
    tensor_layout layout = fine();
    change(layout);
    return test::message_of<invalid_argument>([&] { make_tensor_map(worlds[0], layout); });
  };
  using test::says;
  EXPECT_TRUE(says(refusal([](tensor_layout& m) { m.columns = 0; }), "columns is 0, expected 1 to"));
  EXPECT_TRUE(says(refusal([](tensor_layout& m) { m.rows = -1; }), "rows is -1"));
  EXPECT_TRUE(
      says(refusal([](tensor_layout& m) { m.box_rows = 257; }), "box_rows is 257, expected 1 to 256"));
  EXPECT_TRUE(says(refusal([](tensor_layout& m) { m.row_bytes = 8; }), "row_bytes is 8, expected 16 to"));
  EXPECT_TRUE(says(refusal([](tensor_layout& m) { m.row_bytes = 24; }), "row_bytes is 24", "multiple of 16"));
  EXPECT_TRUE(says(refusal([](tensor_layout& m) { m.element_bytes = 3, m.row_bytes = 32; }),
                   "element_bytes is 3, expected 1, 2 or 4"));
  EXPECT_TRUE(says(refusal([](tensor_layout& m) { m.base = nullptr; }), "base is", "aligned to 16 bytes"));
  EXPECT_TRUE(says(refusal([](tensor_layout& m) { m.base = memory + 8; }), "aligned to 16 bytes"));
}

}  // namespace
}  // namespace baton
