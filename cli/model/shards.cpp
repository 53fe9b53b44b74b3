#include "cli/model/shards.hpp"

#include <fmt/format.h>

#include "cli/model/input_file.hpp"
#include "cli/model/json_text.hpp"

namespace baton::model {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The largest published ones have a hundred thousand tensors in ten megabytes.
constexpr json_limits index_limits{.bytes = 64 << 20};

void add_file(shard_set& set, const fs::path& path) {
  set.files.push_back(safetensors_file::open(path));
  for (const auto& [name, view] : set.files.back().tensors()) {
    const auto [at, is_new] = set.tensors.emplace(name, &view);
    if (!is_new) {
      throw bad_file{fmt::format("{}: tensor {}: expected it in one shard only, found it also in {}",
                                 path.string(), clipped(name), at->second->file())};
    }
  }
}

void require_agreement(const shard_set& set, const weight_map& map, const fs::path& directory) {
  for (const auto& [name, file] : map) {
    const auto at = set.tensors.find(name);
    const std::string expected = (directory / file).string();
    if (at == set.tensors.end() || at->second->file() != expected) {
      throw bad_file{fmt::format(
          "{}: tensor {}: expected here, as model.safetensors.index.json says, found {}", expected,
          clipped(name), at == set.tensors.end() ? "in no shard" : "in " + at->second->file())};
    }
  }
  for (const auto& [name, view] : set.tensors) {
    if (map.count(std::string{name}) == 0) {
      throw bad_file{
          fmt::format("{}: tensor {}: expected an entry in model.safetensors.index.json, found none",
                      view->file(), clipped(name))};
    }
  }
}

shard_set open_indexed(const fs::path& directory, const fs::path& index) {
  const weight_map map = parse_index(read_text(index, index_limits.bytes), index.string());
  std::map<std::string, std::string> first_tensor;  // of each shard, for the error text
  for (const auto& [name, file] : map) first_tensor.emplace(file, name);
  shard_set set;
  for (const auto& [file, tensor] : first_tensor) {
    if (!is_there(directory / file)) {
      throw bad_file{
          fmt::format("{}: expected this shard, as {} lists it (for tensor {}), found no such file; "
                      "fetch it into the same directory",
                      (directory / file).string(), index.filename().string(), clipped(tensor))};
    }
    add_file(set, directory / file);
  }
  require_agreement(set, map, directory);
  return set;
}

}  // namespace

weight_map parse_index(const std::string& text, const std::string& label) {
  const json index = parse_json(text, index_limits, label);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object()) {
    throw bad_file{fmt::format("{}: expected a JSON object with an object weight_map, found none", label)};
  }
  constexpr std::size_t longest_name = 255;  // of a file, on any system that has them
  const auto is_name = [](const json& v) {
    return v.is_string() && !v.get_ref<const std::string&>().empty() &&
           v.get_ref<const std::string&>().size() <= longest_name &&
           v.get_ref<const std::string&>().find_first_of(std::string_view{"/\0", 2}) == std::string::npos;
  };
  for (const auto& [tensor, file] : map->items()) {
    if (!is_name(file)) {
      throw bad_file{fmt::format("{}: tensor {}: expected the name of a file beside the index, found {}",
                                 label, clipped(tensor), shown(file))};
    }
  }
  return map->get<weight_map>();
}

shard_set open_shards(const fs::path& directory) {
  const fs::path index = directory / index_name;
  if (is_there(index)) return open_indexed(directory, index);
  const fs::path single = directory / "model.safetensors";
  if (!is_there(single)) {
    throw bad_file{fmt::format(
        "{}: expected model.safetensors or model.safetensors.index.json, found neither", directory.string())};
  }
  shard_set set;
  add_file(set, single);
  return set;
}

}  // namespace baton::model
