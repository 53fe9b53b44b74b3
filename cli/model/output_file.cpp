#include "cli/model/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "baton/error.hpp"

namespace baton::model {
namespace {

namespace fs = std::filesystem;

/// What a signal that ends the process has to remove. A handler may neither lock nor allocate, hence places for names
/// that belong to their files: enough for all files of a checkpoint.
std::array<std::atomic<const char*>, 1024> unfinished;

void remove_unfinished(int signal) {
  for (const auto& name : unfinished)
    if (const char* const path = name.load()) ::unlink(path);
  std::signal(signal, SIG_DFL);
  std::raise(signal);  // what started us learns how we ended
}

constexpr int ending_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU};

/// Signals that are ignored or handled already are somebody's choice.
void remove_at_signals() {
  for (const int signal : ending_signals) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
        now.sa_handler == SIG_DFL)
      std::signal(signal, remove_unfinished);
  }
}

/// They come to this thread when the object goes: what lies between a file and its name among the unfinished would leave it.
class held_signals {
 public:
  held_signals() {
    sigset_t held;
    ::sigemptyset(&held);
    for (const int signal : ending_signals) ::sigaddset(&held, signal);
    ::pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  ~held_signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  held_signals(const held_signals&) = delete;
  held_signals& operator=(const held_signals&) = delete;

 private:
  sigset_t before_{};
};

void remember(const char* path) {
  for (auto& name : unfinished) {
    const char* free = nullptr;
    if (name.compare_exchange_strong(free, path)) return;
  }
}

void forget(const char* path) {
  for (auto& name : unfinished) {
    const char* held = path;
    if (name.compare_exchange_strong(held, nullptr)) return;
  }
}

void require_replaceable(const fs::path& destination, const std::string& label) {
  const auto bad = [&](const std::string& what) { throw bad_file{fmt::format("{}: {}", label, what)}; };
  std::error_code ignored, problem;
  const auto status = fs::symlink_status(destination, problem);
  if (status.type() == fs::file_type::none) bad("cannot be examined: " + problem.message());
  if (fs::is_directory(status)) bad("is a directory, expected a file name");
  if (fs::is_symlink(status))
    bad("is a symbolic link, expected a regular file or nothing there; name the file itself");
  if (fs::exists(status) && !fs::is_regular_file(status))
    bad("expected a regular file or nothing there, found something else");
  const fs::path folder = destination.has_parent_path() ? destination.parent_path() : ".";
  if (!fs::is_directory(folder, ignored)) bad(fmt::format("there is no directory {}", folder.string()));
}

/// What mkostemp fills in; no name is longer than 255 bytes.
std::string name_beside(fs::path destination) {
  constexpr std::size_t kept = 200;
  return destination.replace_filename(destination.filename().string().substr(0, kept) + ".partial-XXXXXX")
      .string();
}

mode_t mode_of_new_files() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0644u & ~mask;
}

}  // namespace

output_file::output_file(fs::path destination, const std::string& option)
    : destination_{std::move(destination)},
      label_{option.empty() ? destination_.string() : option + " " + destination_.string()},
      temporary_{name_beside(destination_)} {
  require_replaceable(destination_, label_);
  remove_at_signals();
  const held_signals until_remembered;
  fd_ = ::mkostemp(temporary_.data(), O_CLOEXEC);
  if (fd_ < 0) fail("a temporary file beside it cannot be created");
  remember(temporary_.c_str());
}

output_file::~output_file() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
  forget(temporary_.c_str());
}

void output_file::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(fd_, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("cannot be written");
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

void output_file::write_at(std::uint64_t at, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("cannot be written");
    at += static_cast<std::uint64_t>(done);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

void output_file::finish() {
  if (::fchmod(fd_, mode_of_new_files()) != 0) fail("its permissions cannot be set");
  if (::fsync(fd_) != 0) fail("cannot be brought to disk");
  is_finished_ = true;
}

void output_file::publish() {
  if (!is_finished_) finish();
  if (::rename(temporary_.c_str(), destination_.c_str()) != 0) fail("cannot be renamed into place");
  forget(temporary_.c_str());
  ::close(std::exchange(fd_, -1));
}

void output_file::fail(const char* what) const {
  const int reason = errno;
  throw bad_file{fmt::format("{}: {}: {}; nothing was written", label_, what, std::strerror(reason))};
}

}  // namespace baton::model
