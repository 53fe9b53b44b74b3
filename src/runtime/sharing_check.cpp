#include "baton/device_facts.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "baton/error.hpp"
#include "bootstrap/shared_memory.hpp"
#include "bootstrap/unix_socket.hpp"

namespace baton {
namespace {

void share_with_myself() {
  using namespace bootstrap;
  constexpr std::size_t bytes = 4096;
  constexpr std::byte mark{0x5a};
  const time_limit limit{std::chrono::milliseconds{2000}};
  const std::string name = fmt::format("baton-doctor-{:016x}", random_bits());
  const file_descriptor listener = listen_at(name, 1);
  const file_descriptor sender = connect_to(name, limit);
  const file_descriptor receiver = sender ? try_accept(listener) : file_descriptor{};
  if (!receiver) throw transport_error{"an abstract Unix socket does not connect"};
  const file_descriptor memory = create_shared_memory(bytes);
  std::uint64_t note = 0;
  const bool sent = send_descriptor(sender, memory.get(), 1, limit) == io::done;
  const file_descriptor received = sent ? receive_descriptor_now(receiver, note) : file_descriptor{};
  if (!received) throw transport_error{"a file descriptor does not pass through a Unix socket"};
  const auto mine = map_shared_memory(memory, bytes), theirs = map_shared_memory(received, bytes);
  mine.get()[bytes - 1] = mark;
  if (theirs.get()[bytes - 1] != mark) throw transport_error{"shared memory is not shared"};
}

}  // namespace

std::string process_sharing_problem() {
  try {
    share_with_myself();
    return {};
  } catch (const error& e) {
    return e.what();
  }
}

}  // namespace baton
