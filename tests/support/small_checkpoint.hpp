#pragma once
// A checkpoint as small as the format allows, and the ways to damage it.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cli/model/safetensors.hpp"
#include "tests/cpu/temporary_folder.hpp"

namespace baton::test {

/// The smallest checkpoint of the format; every member can be changed before it is written.
struct small_checkpoint {
  nlohmann::json config{{"model_type", "qwen3_moe"}, {"vocab_size", 5},          {"num_hidden_layers", 2},
                        {"num_attention_heads", 2},  {"num_key_value_heads", 1}, {"head_dim", 4},
                        {"num_experts", 3},          {"num_experts_per_tok", 2}};
  std::map<std::string, model::tensor_shape> shapes;
  std::map<std::string, model::dtype> types;             // F32 unless named here
  std::map<std::string, std::vector<std::byte>> values;  // all 0x3c unless named here
  std::map<std::string, int> shard;                      // 0 unless named here
  std::set<std::string> ends_otherwise;                  // in their last byte
  bool is_sharded = false;

  explicit small_checkpoint(int hidden = 8, int inter = 6) {
    config["hidden_size"] = hidden;
    config["moe_intermediate_size"] = inter;
    shapes = {{"model.embed_tokens.weight", {5, hidden}},
              {"model.norm.weight", {hidden}},
              {"lm_head.weight", {5, hidden}}};
    for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
      const auto add = [&](const std::string& name, model::tensor_shape shape) {
        shapes[layer + name + ".weight"] = shape;
      };
      add("input_layernorm", {hidden});
      add("post_attention_layernorm", {hidden});
      add("self_attn.q_proj", {8, hidden});
      add("self_attn.k_proj", {4, hidden});
      add("self_attn.v_proj", {4, hidden});
      add("self_attn.o_proj", {hidden, 8});
      add("self_attn.q_norm", {4});
      add("self_attn.k_norm", {4});
      add("mlp.gate", {3, hidden});
      for (const std::string expert : {"0", "1", "2"}) {
        add("mlp.experts." + expert + ".gate_proj", {inter, hidden});
        add("mlp.experts." + expert + ".up_proj", {inter, hidden});
        add("mlp.experts." + expert + ".down_proj", {hidden, inter});
      }
    }
  }

  std::string shard_name(int index) const {
    return is_sharded ? "model-" + std::to_string(index) + ".safetensors" : "model.safetensors";
  }

  void write(const std::filesystem::path& folder) const {
    write_file(folder / "config.json", config.dump());
    static const std::vector<std::byte> storage(2 << 20, std::byte{0x3c});
    static const std::vector<std::byte> otherwise = [] {
      std::vector<std::byte> bytes = storage;
      bytes.back() = std::byte{0x3d};
      return bytes;
    }();
    std::map<int, std::vector<model::tensor_to_write>> files;
    nlohmann::json index;
    for (const auto& [name, shape] : shapes) {
      const auto type = types.count(name) ? types.at(name) : model::dtype::f32;
      const int file = shard.count(name) ? shard.at(name) : 0;
      const auto count = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>{});
      const std::size_t bytes = static_cast<std::size_t>(count) * model::size_of(type);
      files[file].push_back({name, type, shape,
                             values.contains(name)           ? std::span{values.at(name)}.first(bytes)
                             : ends_otherwise.contains(name) ? std::span{otherwise}.last(bytes)
                                                             : std::span{storage}.first(bytes)});
      index["weight_map"][name] = shard_name(file);
    }
    for (const auto& [file, tensors] : files) model::write_safetensors(folder / shard_name(file), tensors);
    if (is_sharded) write_file(folder / "model.safetensors.index.json", index.dump());
  }
};

}  // namespace baton::test
