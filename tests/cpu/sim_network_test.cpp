// Puts through the CPU machine's network: what may be put, and that it arrives.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "baton/error.hpp"
#include "sim/context.hpp"
#include "tests/cpu/says.hpp"

namespace baton::sim {
namespace {

struct alignas(16) put_room {
  std::array<std::byte, 64> bytes{};
};

/// Rank 0 puts so many of 64 bytes that count up, from the `from`-th on, to the `to`-th there: what the machine throws.
std::string said_of_a_put(int from, int to, int bytes, put_room& there) {
  put_room here;
  for (std::size_t i = 0; i < here.bytes.size(); ++i) here.bytes[i] = static_cast<std::byte>(i);
  machine m{2, {}};
  m.launch(0, {}, [&](context& x) { x.put(1, there.bytes.data() + to, here.bytes.data() + from, bytes); });
  try {
    m.run(0);
  } catch (const error& e) {
    return e.what();
  }
  return {};
}

TEST(sim_network, whole_vec16s_are_put) {
  put_room there;
  EXPECT_EQ(said_of_a_put(16, 32, 32, there), "");
  for (std::size_t i = 0; i < 64; ++i)
    EXPECT_EQ(there.bytes[i], i < 32 ? std::byte{} : static_cast<std::byte>(i - 16)) << i;
}

/// NVSHMEM would put them; our own stores to a rank of the same host move vec16s.
TEST(sim_network, a_put_that_is_not_of_whole_vec16s_is_refused) {
  put_room there;
  EXPECT_TRUE(test::says(said_of_a_put(8, 0, 16, there), "multiple of 16 bytes"));
  EXPECT_TRUE(test::says(said_of_a_put(0, 8, 16, there), "multiple of 16 bytes"));
  EXPECT_TRUE(test::says(said_of_a_put(0, 0, 24, there), "a put of 24 bytes", "multiple of 16"));
  EXPECT_TRUE(test::says(said_of_a_put(0, 0, -16, there), "a put of -16 bytes"));
  EXPECT_EQ(there.bytes, put_room{}.bytes);
}

}  // namespace
}  // namespace baton::sim
