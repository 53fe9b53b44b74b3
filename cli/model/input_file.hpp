#pragma once
// Files that are read: texts as a whole, within a limit, and weights piece by piece.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace baton::model {

/// `regular`: what lies in a folder somebody else filled. `any`: what the user named, which may be a pipe.
enum class file_kind { regular, any };

/// Whether there is something. @throws bad_file  the system does not say: a name too long, links in a circle, no right to look
bool is_there(const std::filesystem::path& path);

/// A whole text. @throws bad_file  not there, of another kind, or larger than `most_bytes`, which is found out
///                               before anything of a regular file is read
std::string read_text(const std::filesystem::path& path, std::size_t most_bytes,
                      file_kind kind = file_kind::regular);

/// Bytes that are read when they are wanted, from an open file or from memory. Read, not mapped: a file that somebody
/// cuts short meanwhile is an error with a name here, and SIGBUS with a mapping.
class byte_source {
 public:
  /// @throws bad_file  missing, unreadable, not a regular file
  static std::shared_ptr<const byte_source> open(const std::filesystem::path& path);
  /// `label` stands for the file in error texts.
  static std::shared_ptr<const byte_source> of(std::vector<std::byte> bytes, std::string label);

  byte_source(const byte_source&) = delete;
  byte_source& operator=(const byte_source&) = delete;
  ~byte_source();

  const std::string& label() const { return label_; }
  std::uint64_t size() const { return size_; }

  /// Bytes [at, at + to.size()), which must lie within size().
  /// @throws bad_file  the file has become shorter, or the system refused
  void read(std::uint64_t at, std::span<std::byte> to) const;

 private:
  byte_source() = default;
  std::string label_;
  std::uint64_t size_ = 0;
  int fd_ = -1;
  std::vector<std::byte> owned_;
};

}  // namespace baton::model
