#pragma once
// A file that appears whole or not at all.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace baton::model {

/// Written into a temporary file beside its destination, which publish() renames over it; until then what was there
/// stays as it is. The temporary file goes with the object, and with a signal that asks the process to end. The file
/// gets mode 0644 less the umask, whatever it replaces.
class output_file {
 public:
  /// `option` is named in error texts: "--output".
  /// @throws bad_file  the folder is absent or not writable, or there is something else than a regular file: a
  ///                   folder, a device, or a symbolic link, which is not followed
  explicit output_file(std::filesystem::path destination, const std::string& option = {});
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;
  ~output_file();

  /// So for both: @throws bad_file  the system refused (which call, which reason); nothing has changed
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span{text})); }
  /// At byte `at`, wherever write() has got to.
  void write_at(std::uint64_t at, std::span<const std::byte> bytes);
  /// Brought to disk; nothing may be written after it. Of several files that belong together, before the first is published.
  void finish();
  /// Finished, if it was not, and renamed.
  void publish();

 private:
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path destination_;
  std::string label_, temporary_;
  int fd_ = -1;
  bool is_finished_ = false;
};

}  // namespace baton::model
