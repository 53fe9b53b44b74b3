#pragma once
// What both fuzzers do with one input: read it as a safetensors file and use everything it claims to hold.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/model/safetensors.hpp"
#include "tests/fuzz/verdict.hpp"

namespace baton::test {

/// Empty if every tensor of `tensors` lies in a file of `file_bytes` and has the bytes its dtype and shape call for;
/// otherwise the first that does not.
inline std::string broken_promise(std::uint64_t file_bytes,
                                  const std::map<std::string, model::tensor_view>& tensors) {
  for (const auto& [name, view] : tensors) {
    std::uint64_t bytes = model::size_of(view.type);
    for (const auto extent : view.shape) {
      if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) return name;
    }
    const bool is_inside = view.size <= file_bytes && view.begin <= file_bytes - view.size;
    if (bytes != view.size || !is_inside) return name;
  }
  return {};
}

/// Converts a tensor as its dtype allows; bad_file where it does not.
inline std::size_t use(const model::tensor_view& view) {
  switch (view.type) {
    case model::dtype::f32:
    case model::dtype::f16:
    case model::dtype::bf16:
      return to_float(view).size() + to_bfloat16(view).size();
    default:
      return to_int32(view).size();
  }
}

/// Throws nothing but what must stop the fuzzer.
inline verdict read_any_safetensors(std::span<const std::uint8_t> input) {
  std::vector<std::byte> bytes(input.size());
  if (!bytes.empty()) std::memcpy(bytes.data(), input.data(), input.size());
  try {
    const auto file = model::safetensors_file::parse(std::move(bytes), "fuzz");
    if (const auto name = broken_promise(input.size(), file.tensors()); !name.empty()) {
      throw std::logic_error{"accepted, though tensor " + name + " is not in the file"};
    }
    for (const auto& [name, view] : file.tensors()) {
      try {
        use(view);
      } catch (const bad_file&) {
        continue;
      }
    }
  } catch (const bad_file& e) {
    require_short(e.what());
    return verdict::refused;
  }
  return verdict::accepted;
}

}  // namespace baton::test
