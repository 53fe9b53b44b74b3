#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/model/safetensors.hpp"
#include "cli/model/safetensors_header.hpp"

namespace baton::model {
namespace {

void require_writable_tensors(std::span<const tensor_to_write> tensors) {
  std::set<std::string> names;
  for (const auto& t : tensors) {
    if (t.name == safetensors_detail::metadata_key || !names.insert(t.name).second) {
      throw invalid_argument{fmt::format("tensor {}: expected a name of its own other than {}", t.name,
                                         safetensors_detail::metadata_key)};
    }
    std::uint64_t needed = 0;
    if (!safetensors_detail::byte_count(t.type, t.shape, needed) || needed != t.bytes.size()) {
      throw invalid_argument{fmt::format("tensor {}: expected {} bytes for {} {}, found {}", t.name, needed,
                                         name(t.type), to_string(t.shape), t.bytes.size())};
    }
  }
}

/// Wide elements first, so that every tensor is aligned to its element.
std::vector<const tensor_to_write*> file_order(std::span<const tensor_to_write> tensors) {
  std::vector<const tensor_to_write*> order;
  for (const auto& t : tensors) order.push_back(&t);
  std::stable_sort(order.begin(), order.end(), [](const tensor_to_write* a, const tensor_to_write* b) {
    return size_of(a->type) > size_of(b->type);
  });
  return order;
}

std::string make_header(const std::vector<const tensor_to_write*>& order,
                        const std::map<std::string, std::string>& metadata) {
  auto header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string{safetensors_detail::metadata_key}] = metadata;
  std::uint64_t at = 0;
  for (const auto* t : order) {
    header[t->name] = {
        {"dtype", name(t->type)}, {"shape", t->shape}, {"data_offsets", {at, at + t->bytes.size()}}};
    at += t->bytes.size();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception& e) {
    throw invalid_argument{
        fmt::format("names and metadata of the tensors: expected UTF-8, found: {}", e.what())};
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');  // tensor data begins at a multiple of 8
  std::string framed;
  for (std::size_t i = 0; i < safetensors_detail::length_bytes; ++i) {
    framed.push_back(static_cast<char>((text.size() >> (8 * i)) & 0xff));
  }
  return framed + text;
}

}  // namespace

void write_safetensors(output_file& file, std::span<const tensor_to_write> tensors,
                       const std::map<std::string, std::string>& metadata) {
  require_writable_tensors(tensors);
  const auto order = file_order(tensors);
  file.write(make_header(order, metadata));
  for (const auto* t : order) file.write(t->bytes);
  file.publish();
}

void write_safetensors(const std::filesystem::path& path, std::span<const tensor_to_write> tensors,
                       const std::map<std::string, std::string>& metadata) {
  output_file file{path};
  write_safetensors(file, tensors, metadata);
}

}  // namespace baton::model
