#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/model/safetensors.hpp"
#include "cli/model/safetensors_header.hpp"

namespace baton::model {
namespace {

std::uint64_t bytes_of(const tensor_plan& t) {
  std::uint64_t bytes = 0;
  if (!safetensors_detail::byte_count(t.type, t.shape, bytes)) {
    throw invalid_argument{fmt::format("tensor {}: expected a shape whose bytes fit 63 bits, found {}",
                                       t.name, to_string(t.shape))};
  }
  return bytes;
}

void require_names(std::span<const tensor_plan> tensors) {
  std::set<std::string> names;
  for (const auto& t : tensors) {
    if (t.name == safetensors_detail::metadata_key || !names.insert(t.name).second) {
      throw invalid_argument{fmt::format("tensor {}: expected a name of its own other than {}", t.name,
                                         safetensors_detail::metadata_key)};
    }
  }
}

/// Wide elements first, so that every tensor is aligned to its element.
std::vector<const tensor_plan*> file_order(std::span<const tensor_plan> tensors) {
  std::vector<const tensor_plan*> order;
  for (const auto& t : tensors) order.push_back(&t);
  std::stable_sort(order.begin(), order.end(), [](const tensor_plan* a, const tensor_plan* b) {
    return size_of(a->type) > size_of(b->type);
  });
  return order;
}

std::string make_header(const std::vector<const tensor_plan*>& order,
                        const std::map<std::string, std::string>& metadata) {
  auto header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[std::string{safetensors_detail::metadata_key}] = metadata;
  std::uint64_t at = 0;
  for (const auto* t : order) {
    const std::uint64_t end = at + bytes_of(*t);
    header[t->name] = {{"dtype", name(t->type)}, {"shape", t->shape}, {"data_offsets", {at, end}}};
    at = end;
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

safetensors_writer::safetensors_writer(output_file& file, std::span<const tensor_plan> tensors,
                                       const std::map<std::string, std::string>& metadata)
    : file_{file} {
  require_names(tensors);
  const auto order = file_order(tensors);
  const std::string header = make_header(order, metadata);
  std::uint64_t at = header.size();
  for (const auto* t : order) {
    const std::uint64_t size = bytes_of(*t);
    places_.emplace(t->name, place{at, size});
    at += size;
  }
  file_.write(header);
}

void safetensors_writer::write(const std::string& name, std::uint64_t at, std::span<const std::byte> bytes) {
  const auto found = places_.find(name);
  if (found == places_.end()) throw invalid_argument{fmt::format("tensor {}: is not in the header", name)};
  place& to = found->second;
  if (at > to.size || bytes.size() > to.size - at) {
    throw invalid_argument{fmt::format("tensor {}: expected bytes within [0, {}), found [{}, {} + {})", name,
                                       to.size, at, at, bytes.size())};
  }
  file_.write_at(to.begin + at, bytes);
  to.written += bytes.size();
}

void safetensors_writer::require_whole() const {
  for (const auto& [name, to] : places_) {
    if (to.written == to.size) continue;
    throw invalid_argument{
        fmt::format("tensor {}: expected {} bytes, {} were written", name, to.size, to.written)};
  }
}

void write_safetensors(output_file& file, std::span<const tensor_to_write> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<tensor_plan> plans;
  for (const auto& t : tensors) {
    plans.push_back({t.name, t.type, t.shape});
    const std::uint64_t needed = bytes_of(plans.back());
    if (needed == t.bytes.size()) continue;
    throw invalid_argument{fmt::format("tensor {}: expected {} bytes for {} {}, found {}", t.name, needed,
                                       name(t.type), to_string(t.shape), t.bytes.size())};
  }
  safetensors_writer writer{file, plans, metadata};
  for (const auto& t : tensors) writer.write(t.name, 0, t.bytes);
  writer.require_whole();
  file.publish();
}

void write_safetensors(const std::filesystem::path& path, std::span<const tensor_to_write> tensors,
                       const std::map<std::string, std::string>& metadata) {
  output_file file{path};
  write_safetensors(file, tensors, metadata);
}

}  // namespace baton::model
