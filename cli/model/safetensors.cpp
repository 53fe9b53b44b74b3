#include "cli/model/safetensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/model/safetensors_header.hpp"

namespace baton::model {

struct safetensors_file::contents {
  std::string label;
  safetensors_detail::header header;
};

safetensors_file safetensors_file::of(std::shared_ptr<const byte_source> source) {
  return safetensors_file{
      std::make_shared<contents>(contents{source->label(), safetensors_detail::read_header(source)})};
}

safetensors_file safetensors_file::open(const std::filesystem::path& path) {
  return of(byte_source::open(path));
}

safetensors_file safetensors_file::parse(std::vector<std::byte> bytes, std::string label) {
  return of(byte_source::of(std::move(bytes), std::move(label)));
}

const std::string& safetensors_file::label() const {
  return contents_->label;
}
bool safetensors_file::has(const std::string& name) const {
  return tensors().count(name) != 0;
}
const std::map<std::string, tensor_view>& safetensors_file::tensors() const {
  return contents_->header.tensors;
}
const std::map<std::string, std::string>& safetensors_file::metadata() const {
  return contents_->header.metadata;
}

const tensor_view& safetensors_file::at(const std::string& name) const {
  const auto found = tensors().find(name);
  if (found != tensors().end()) return found->second;
  std::vector<std::string> first;
  for (const auto& [other, view] : tensors()) {
    if (first.size() < 8) first.push_back(other);
  }
  throw bad_file{fmt::format("{}: expected a tensor {}, found {} others{}{}", label(), name, tensors().size(),
                             first.empty() ? "" : ": ", fmt::join(first, ", "))};
}

const tensor_view& safetensors_file::at(const std::string& name, const tensor_shape& expected) const {
  const tensor_view& view = at(name);
  bool same = view.shape.size() == expected.size();
  for (std::size_t i = 0; same && i < expected.size(); ++i) {
    same = expected[i] < 0 || expected[i] == view.shape[i];
  }
  if (!same) {
    throw bad_file{fmt::format(
        "{}: tensor {}: expected shape {}{}, found {}", label(), name, to_string(expected),
        to_string(expected).find('-') == std::string::npos ? "" : " (-1: any)", to_string(view.shape))};
  }
  return view;
}

std::string to_string(const tensor_shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace baton::model
