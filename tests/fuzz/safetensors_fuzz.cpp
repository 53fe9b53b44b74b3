// libFuzzer's way in: build with clang (see CMakeLists.txt beside this file), run with a folder of seeds.
#include "tests/fuzz/read_any_bytes.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  baton::test::read_any_bytes({data, size});
  return 0;
}
