#include "bootstrap/shared_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "baton/error.hpp"

namespace baton::bootstrap {
namespace {

[[noreturn]] void refuse(const char* doing, std::size_t bytes, int why) {
  const std::string text =
      fmt::format("cannot {} {} bytes of shared host memory: {}", doing, bytes, std::strerror(why));
  if (why == ENOMEM || why == ENOSPC || why == EFBIG) throw out_of_memory{text, bytes, 0};
  throw transport_error{text};
}

/// Past this limit the kernel does not refuse but kills.
void respect_file_size_limit(std::size_t bytes) {
  rlimit most{};
  if (::getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY && bytes > most.rlim_cur)
    throw out_of_memory{
        fmt::format("shared host memory of {} bytes is more than this process may give a file, "
                    "{} (ulimit -f)",
                    bytes, most.rlim_cur),
        bytes, most.rlim_cur};
}

/// Takes the pages now. What is taken only when it is touched ends a process when there is none left.
void take_pages(const file_descriptor& fd, std::size_t bytes) {
  constexpr std::size_t chunk = std::size_t{64} << 20;  // an interrupted call starts again from its beginning
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t next = std::min(chunk, bytes - done);
    if (::fallocate(fd.get(), 0, static_cast<off_t>(done), static_cast<off_t>(next)) == 0)
      done += next;
    else if (errno != EINTR)
      refuse("allocate", bytes, errno);
  }
}

}  // namespace

file_descriptor create_shared_memory(std::size_t bytes) {
  respect_file_size_limit(bytes);
  file_descriptor fd{::memfd_create("baton-window", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) refuse("create", bytes, errno);
  take_pages(fd, bytes);
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    refuse("seal the size of", bytes, errno);
  return fd;
}

void give_back_shared_memory(const file_descriptor& fd, std::size_t bytes) {
  if (::fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) != 0)
    refuse("give back", bytes, errno);
}

void retake_shared_memory(const file_descriptor& fd, std::size_t bytes) {
  take_pages(fd, bytes);
}

std::shared_ptr<std::byte> map_shared_memory(const file_descriptor& fd, std::size_t bytes) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || info.st_size < static_cast<off_t>(bytes))
    throw transport_error{
        fmt::format("shared host memory has {} bytes, expected {}: ranks disagree", info.st_size, bytes)};
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    throw transport_error{
        "shared host memory of a peer is not sealed against shrinking: whoever truncates it would "
        "end this process; it was not made by this version of baton"};
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (at == MAP_FAILED) refuse("map", bytes, errno);
  return {static_cast<std::byte*>(at), [bytes](std::byte* p) { ::munmap(p, bytes); }};
}

}  // namespace baton::bootstrap
