#pragma once
// The safetensors files of a checkpoint directory, seen as one set of tensors.
#include <filesystem>
#include <map>
#include <string_view>
#include <vector>

#include "cli/model/safetensors.hpp"

namespace baton::model {

struct shard_set {
  std::vector<safetensors_file> files;
  std::map<std::string_view, const tensor_view*> tensors;  // they and their names belong to the files
};

/// Opens what model.safetensors.index.json lists, or else model.safetensors.
/// @throws bad_file  a file is missing or damaged, or index and shards disagree about where a tensor is
shard_set open_shards(const std::filesystem::path& directory);

}  // namespace baton::model
