// libFuzzer's way in, built once for each reader: see CMakeLists.txt beside this file; run it with a folder of seeds.
#include "tests/fuzz/hear_any_hello.hpp"
#include "tests/fuzz/read_any_json.hpp"
#include "tests/fuzz/read_any_safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  baton::test::BATON_FUZZED_READER({data, size});
  return 0;
}
