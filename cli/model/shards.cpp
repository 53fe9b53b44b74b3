#include "cli/model/shards.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace baton::model {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Tensor name to shard file name.
using weight_map = std::map<std::string, std::string>;

weight_map read_index(const fs::path& path) {
  const json index = json::parse(read_text(path), nullptr, /*allow_exceptions=*/false);
  const auto is_name = [](const json& v) {
    return v.is_string() && !v.get_ref<const std::string&>().empty() &&
           v.get_ref<const std::string&>().find('/') == std::string::npos;
  };
  const bool has_map = index.is_object() && index.contains("weight_map") && index["weight_map"].is_object();
  if (!has_map) {
    throw bad_file{
        fmt::format("{}: expected a JSON object with an object weight_map, found none", path.string())};
  }
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    if (!is_name(file)) {
      throw bad_file{fmt::format("{}: tensor {}: expected the name of a file beside the index, found {}",
                                 path.string(), tensor,
                                 file.dump(-1, ' ', true, json::error_handler_t::replace))};
    }
  }
  return index["weight_map"].get<weight_map>();
}

void add_file(shard_set& set, const fs::path& path) {
  set.files.push_back(safetensors_file::open(path));
  for (const auto& [name, view] : set.files.back().tensors()) {
    const auto [at, is_new] = set.tensors.emplace(name, view);
    if (!is_new) {
      throw bad_file{fmt::format("{}: tensor {}: expected it in one shard only, found it also in {}",
                                 path.string(), name, at->second.file)};
    }
  }
}

void require_agreement(const shard_set& set, const weight_map& map, const fs::path& directory) {
  for (const auto& [name, file] : map) {
    const auto at = set.tensors.find(name);
    const std::string expected = (directory / file).string();
    if (at == set.tensors.end() || at->second.file != expected) {
      throw bad_file{
          fmt::format("{}: tensor {}: expected here, as model.safetensors.index.json says, found {}",
                      expected, name, at == set.tensors.end() ? "in no shard" : "in " + at->second.file)};
    }
  }
  for (const auto& [name, view] : set.tensors) {
    if (map.count(name) == 0) {
      throw bad_file{fmt::format(
          "{}: tensor {}: expected an entry in model.safetensors.index.json, found none", view.file, name)};
    }
  }
}

shard_set open_indexed(const fs::path& directory, const fs::path& index) {
  const weight_map map = read_index(index);
  std::map<std::string, std::string> first_tensor;  // of each shard, for the error text
  for (const auto& [name, file] : map) first_tensor.emplace(file, name);
  shard_set set;
  for (const auto& [file, tensor] : first_tensor) {
    if (!fs::exists(directory / file)) {
      throw bad_file{
          fmt::format("{}: expected this shard, as {} lists it (for tensor {}), found no such file; "
                      "fetch it into the same directory",
                      (directory / file).string(), index.filename().string(), tensor)};
    }
    add_file(set, directory / file);
  }
  require_agreement(set, map, directory);
  return set;
}

}  // namespace

std::string read_text(const fs::path& path) {
  std::ifstream in{path, std::ios::binary};
  std::ostringstream text;
  if (!fs::is_regular_file(path) || !in || !(text << in.rdbuf())) {
    throw bad_file{fmt::format("{}: expected a readable file, found {}", path.string(),
                               fs::exists(path) ? "something else" : "nothing")};
  }
  return text.str();
}

shard_set open_shards(const fs::path& directory) {
  const fs::path index = directory / "model.safetensors.index.json";
  if (fs::exists(index)) return open_indexed(directory, index);
  const fs::path single = directory / "model.safetensors";
  if (!fs::exists(single)) {
    throw bad_file{fmt::format(
        "{}: expected model.safetensors or model.safetensors.index.json, found neither", directory.string())};
  }
  shard_set set;
  add_file(set, single);
  return set;
}

}  // namespace baton::model
