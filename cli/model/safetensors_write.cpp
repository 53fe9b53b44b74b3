#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/model/safetensors.hpp"
#include "cli/model/safetensors_header.hpp"

namespace baton::model {
namespace {

namespace fs = std::filesystem;

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

/// A new file beside its destination: renamed over it by publish(), removed if that never happens.
class new_file {
 public:
  explicit new_file(fs::path destination) : destination_{std::move(destination)} {
    temporary_ = destination_.string() + ".partial-XXXXXX";
    fd_ = ::mkostemp(temporary_.data(), O_CLOEXEC);
    if (fd_ < 0) fail("a temporary file beside it cannot be created");
  }
  new_file(const new_file&) = delete;
  new_file& operator=(const new_file&) = delete;
  ~new_file() {
    if (fd_ >= 0) ::close(fd_);
    if (!published_) ::unlink(temporary_.c_str());
  }

  void write(const void* data, std::size_t bytes) {
    const auto* at = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t done = ::write(fd_, at, bytes);
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) fail("cannot be written");
      at += done;
      bytes -= static_cast<std::size_t>(done);
    }
  }

  void publish() {
    if (::fchmod(fd_, permissions()) != 0) fail("its permissions cannot be set");
    if (::fsync(fd_) != 0) fail("cannot be brought to disk");
    const int fd = std::exchange(fd_, -1);
    if (::close(fd) != 0) fail("cannot be closed");
    if (::rename(temporary_.c_str(), destination_.c_str()) != 0) fail("cannot be renamed into place");
    published_ = true;
  }

 private:
  /// Those of the file it replaces, otherwise what open() would have given.
  mode_t permissions() const {
    struct stat info {};
    if (::stat(destination_.c_str(), &info) == 0) return info.st_mode & 07777u;
    const mode_t mask = ::umask(0);
    ::umask(mask);
    return 0666u & ~mask;
  }

  [[noreturn]] void fail(const char* what) const {
    const int reason = errno;
    throw bad_file{
        fmt::format("{}: {}: {}; nothing was written", destination_.string(), what, std::strerror(reason))};
  }

  fs::path destination_;
  std::string temporary_;
  int fd_ = -1;
  bool published_ = false;
};

/// Renaming would replace a link or a device by a plain file; links are followed, the rest is refused.
fs::path plain_destination(const fs::path& path) {
  std::error_code ignored;
  const fs::path target = fs::is_symlink(path, ignored) ? fs::weakly_canonical(path, ignored) : path;
  const auto status = fs::status(target, ignored);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    throw bad_file{
        fmt::format("{}: expected a regular file or nothing there, found something else", path.string())};
  }
  return target;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::span<const tensor_to_write> tensors,
                       const std::map<std::string, std::string>& metadata) {
  require_writable_tensors(tensors);
  const auto order = file_order(tensors);
  const std::string header = make_header(order, metadata);
  new_file file{plain_destination(path)};
  file.write(header.data(), header.size());
  for (const auto* t : order) file.write(t->bytes.data(), t->bytes.size());
  file.publish();
}

}  // namespace baton::model
