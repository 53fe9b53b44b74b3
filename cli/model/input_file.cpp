#include "cli/model/input_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "baton/error.hpp"

namespace baton::model {
namespace {

[[noreturn]] void refused(const std::string& label, const char* what) {
  throw bad_file{fmt::format("{}: {}: {}", label, what, std::strerror(errno))};
}

struct opened {
  int fd = -1;
  struct stat info {};

  /// Without O_NONBLOCK a pipe that nobody writes to would hold us here.
  explicit opened(const std::string& label) : fd{::open(label.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)} {
    if (fd < 0) refused(label, "cannot be opened");
    if (::fstat(fd, &info) != 0) refused(label, "cannot be examined");
  }
  opened(const opened&) = delete;
  opened& operator=(const opened&) = delete;
  ~opened() {
    if (fd >= 0) ::close(fd);
  }
};

void require_regular(const opened& file, const std::string& label) {
  if (!S_ISREG(file.info.st_mode))
    throw bad_file{fmt::format("{}: expected a regular file, found {}", label,
                               S_ISDIR(file.info.st_mode) ? "a directory" : "something else")};
}

[[noreturn]] void too_large(const std::string& label, std::size_t most, const std::string& found) {
  throw bad_file{fmt::format("{}: expected at most {} bytes, found {}", label, most, found)};
}

}  // namespace

bool is_there(const std::filesystem::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  refused(path.string(), "cannot be looked for");
}

std::string read_text(const std::filesystem::path& path, std::size_t most_bytes, file_kind kind) {
  const std::string label = path.string();
  const opened file{label};
  if (kind == file_kind::regular || S_ISDIR(file.info.st_mode)) require_regular(file, label);
  const bool is_regular = S_ISREG(file.info.st_mode);
  const auto size = static_cast<std::uint64_t>(file.info.st_size);
  if (is_regular && size > most_bytes) too_large(label, most_bytes, std::to_string(size));
  ::fcntl(file.fd, F_SETFL, O_RDONLY);  // wait for what a pipe still has to say
  std::string text;
  std::vector<char> piece(std::clamp<std::size_t>(size + 1, 1 << 12, 1 << 20));
  for (;;) {
    const ssize_t got = ::read(file.fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refused(label, "cannot be read");
    if (got == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(got));
    if (text.size() > most_bytes) too_large(label, most_bytes, "more");
  }
}

std::shared_ptr<const byte_source> byte_source::open(const std::filesystem::path& path) {
  opened file{path.string()};
  require_regular(file, path.string());
  const std::shared_ptr<byte_source> source{new byte_source};
  source->label_ = path.string();
  source->size_ = static_cast<std::uint64_t>(file.info.st_size);
  source->fd_ = std::exchange(file.fd, -1);
  return source;
}

std::shared_ptr<const byte_source> byte_source::of(std::vector<std::byte> bytes, std::string label) {
  const std::shared_ptr<byte_source> source{new byte_source};
  source->label_ = std::move(label);
  source->size_ = bytes.size();
  source->owned_ = std::move(bytes);
  return source;
}

byte_source::~byte_source() {
  if (fd_ >= 0) ::close(fd_);
}

void byte_source::read(std::uint64_t at, std::span<std::byte> to) const {
  if (to.empty()) return;
  if (fd_ < 0) {
    std::memcpy(to.data(), owned_.data() + at, to.size());
    return;
  }
  while (!to.empty()) {
    const ssize_t got = ::pread(fd_, to.data(), to.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refused(label_, "cannot be read");
    if (got == 0) {
      throw bad_file{
          fmt::format("{}: expected {} bytes, as when it was opened, found its end at {}: somebody cut it "
                      "short; fetch it again",
                      label_, size_, at)};
    }
    at += static_cast<std::uint64_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

}  // namespace baton::model
