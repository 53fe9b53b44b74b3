#pragma once
// The all-gather of ranks that are processes of one machine: rank 0 collects and answers, over the connections that
// the handshake made. It fails a round for everybody, so that all ranks report the same cause.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "bootstrap/handshake.hpp"

namespace baton::bootstrap {

class process_rendezvous {
 public:
  /// Collective. One world of a machine at a time may have the meeting's name, and keeps it as long as it lives.
  /// @throws transport_error  naming the ranks that did not come, came twice, are of another job, or expected another
  /// size
  explicit process_rendezvous(const rendezvous_config& m);

  void all_gather(const void* mine, void* all, std::size_t bytes);

 private:
  void collect(const void* mine, std::byte* all, std::size_t bytes);
  void ask(const void* mine, void* all, std::size_t bytes);
  const file_descriptor& peer(int rank) const { return shaken_.peers[static_cast<std::size_t>(rank)]; }
  [[noreturn]] void fail(const std::string& why);
  [[noreturn]] void fail_all(const std::string& why);

  rendezvous_config m_;
  handshake shaken_;
  std::uint64_t rounds_ = 0;
  std::string broken_;
  pid_t process_ = ::getpid();
};

}  // namespace baton::bootstrap
