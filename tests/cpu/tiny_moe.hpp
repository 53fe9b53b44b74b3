#pragma once
// The small model under data/ and what is known about it.
#include <filesystem>
#include <string>

#include "cli/model/checkpoint.hpp"
#include "cli/model/moe_backend.hpp"

namespace baton::test {

inline std::filesystem::path tiny_moe_folder() {
  return std::filesystem::path{BATON_SOURCE_DIR} / "data/tiny-moe";
}

inline const model::checkpoint& tiny_moe() {
  static const model::checkpoint opened = model::checkpoint::open(tiny_moe_folder());
  return opened;
}

inline const model::safetensors_file& fixtures() {
  static const auto opened = model::safetensors_file::open(tiny_moe_folder() / "fixtures.safetensors");
  return opened;
}

inline const model::tensor_view& fixture(int layer, const std::string& name) {
  return fixtures().at("layers." + std::to_string(layer) + "." + name);
}

inline std::vector<std::byte> bytes_of(const model::tensor_view& tensor) {
  std::vector<std::byte> bytes(tensor.size);
  tensor.read(0, bytes);
  return bytes;
}

/// The fixtures' input of an MoE layer with its routing.
inline model::routed_tokens fixture_tokens(int layer) {
  const auto hidden = model::to_bfloat16(fixture(layer, "moe_input"));
  return {static_cast<int>(hidden.size()) / tiny_moe().config().hidden_size, hidden,
          model::to_int32(fixture(layer, "topk_ids")), model::to_float(fixture(layer, "topk_weights"))};
}

}  // namespace baton::test
