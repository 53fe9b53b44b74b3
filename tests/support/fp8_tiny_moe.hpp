#pragma once
// The small model as `baton quantize` writes it.
#include "cli/model/quantise_checkpoint.hpp"
#include "tests/cpu/temporary_folder.hpp"
#include "tests/cpu/tiny_moe.hpp"

namespace baton::test {

/// Written once, and gone with the process.
inline const model::checkpoint& fp8_tiny_moe() {
  static const temporary_folder folder;
  static const model::checkpoint opened = [] {
    model::quantise_checkpoint(tiny_moe(), folder / "tiny-moe-fp8");
    return model::checkpoint::open(folder / "tiny-moe-fp8");
  }();
  return opened;
}

}  // namespace baton::test
