#include "cli/model/safetensors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/model/safetensors_header.hpp"

namespace baton::model {

/// The bytes, owned or mapped, and what the header says about them.
struct safetensors_file::contents {
  std::string label;
  std::vector<std::byte> owned;
  std::shared_ptr<const std::byte> mapped;
  safetensors_detail::header header;
};

namespace {

struct descriptor {
  int fd;
  ~descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

[[noreturn]] void refused(const std::string& label, const char* what) {
  throw bad_file{fmt::format("{}: {}: {}", label, what, std::strerror(errno))};
}

std::size_t mappable_size(int fd, const std::string& label) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) refused(label, "cannot be examined");
  if (!S_ISREG(info.st_mode))
    throw bad_file{fmt::format("{}: expected a regular file, found something else", label)};
  return static_cast<std::size_t>(info.st_size);
}

std::shared_ptr<const std::byte> map_file(int fd, std::size_t bytes, const std::string& label) {
  if (bytes == 0) return {};
  void* at = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (at == MAP_FAILED) refused(label, "cannot be mapped");
  return {static_cast<const std::byte*>(at),
          [bytes](const std::byte* p) { ::munmap(const_cast<std::byte*>(p), bytes); }};
}

}  // namespace

safetensors_file safetensors_file::open(const std::filesystem::path& path) {
  auto c = std::make_shared<contents>();
  c->label = path.string();
  const descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) refused(c->label, "cannot be opened");
  const std::size_t bytes = mappable_size(file.fd, c->label);
  c->mapped = map_file(file.fd, bytes, c->label);
  c->header = safetensors_detail::read_header({c->mapped.get(), bytes}, c->label);
  return safetensors_file{std::move(c)};
}

safetensors_file safetensors_file::parse(std::vector<std::byte> bytes, std::string label) {
  auto c = std::make_shared<contents>();
  c->label = std::move(label);
  c->owned = std::move(bytes);
  c->header = safetensors_detail::read_header(c->owned, c->label);
  return safetensors_file{std::move(c)};
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

std::int64_t tensor_view::count() const {
  return static_cast<std::int64_t>(bytes.size() / size_of(type));
}

std::string to_string(const tensor_shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace baton::model
