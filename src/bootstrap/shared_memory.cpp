#include "bootstrap/shared_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "baton/error.hpp"

namespace baton::bootstrap {

file_descriptor create_shared_memory(std::size_t bytes) {
  file_descriptor fd{::memfd_create("baton-window", MFD_CLOEXEC)};
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    throw transport_error{
        fmt::format("cannot create {} bytes of shared host memory: {}", bytes, std::strerror(errno))};
  return fd;
}

std::shared_ptr<std::byte> map_shared_memory(const file_descriptor& fd, std::size_t bytes) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || info.st_size < static_cast<off_t>(bytes))
    throw transport_error{
        fmt::format("shared host memory has {} bytes, expected {}: ranks disagree", info.st_size, bytes)};
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (at == MAP_FAILED)
    throw transport_error{
        fmt::format("cannot map {} bytes of shared host memory: {}", bytes, std::strerror(errno))};
  return {static_cast<std::byte*>(at), [bytes](std::byte* p) { ::munmap(p, bytes); }};
}

}  // namespace baton::bootstrap
