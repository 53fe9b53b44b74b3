#pragma once
// The safetensors files of a checkpoint directory, seen as one set of tensors.
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/model/safetensors.hpp"

namespace baton::model {

/// Of the file that says which shard a tensor is in.
inline constexpr const char* index_name = "model.safetensors.index.json";

struct shard_set {
  std::vector<safetensors_file> files;
  std::map<std::string_view, const tensor_view*> tensors;  // they and their names belong to the files
};

/// Tensor name to shard file name.
using weight_map = std::map<std::string, std::string>;

/// The text of model.safetensors.index.json; `label` stands for the file in error texts.
/// @throws bad_file  not JSON, or shards that are not the names of files in the same folder
weight_map parse_index(const std::string& text, const std::string& label);

/// Opens what model.safetensors.index.json lists, or else model.safetensors.
/// @throws bad_file  a file is missing or damaged, or index and shards disagree about where a tensor is
shard_set open_shards(const std::filesystem::path& directory);

}  // namespace baton::model
