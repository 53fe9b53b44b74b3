#pragma once
// The safetensors files of a checkpoint directory, seen as one set of tensors.
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "cli/model/safetensors.hpp"

namespace baton::model {

struct shard_set {
  std::vector<safetensors_file> files;
  std::map<std::string, tensor_view> tensors;
};

/// Opens what model.safetensors.index.json lists, or else model.safetensors.
/// @throws bad_file  a file is missing or damaged, or index and shards disagree about where a tensor is
shard_set open_shards(const std::filesystem::path& directory);

/// A whole small file. @throws bad_file  it cannot be read
std::string read_text(const std::filesystem::path& path);

}  // namespace baton::model
