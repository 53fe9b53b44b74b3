#include "bootstrap/unix_socket.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "baton/error.hpp"

namespace baton::bootstrap {
namespace {

struct address {
  sockaddr_un name{};
  socklen_t bytes = 0;
};

/// A name in the abstract namespace starts with a zero byte and is not terminated.
address abstract_address(const std::string& name) {
  address a;
  if (name.empty() || name.size() > longest_socket_name)
    throw transport_error{fmt::format("socket name '{}' has {} characters, expected 1 to {}", name,
                                      name.size(), longest_socket_name)};
  a.name.sun_family = AF_UNIX;
  std::memcpy(a.name.sun_path + 1, name.data(), name.size());
  a.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return a;
}

file_descriptor open_socket() {
  file_descriptor fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!fd) throw transport_error{fmt::format("cannot open a Unix socket: {}", std::strerror(errno))};
  return fd;
}

bool same_user(const file_descriptor& fd) {
  ucred other{};
  socklen_t bytes = sizeof other;
  return ::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &other, &bytes) == 0 && other.uid == ::geteuid();
}

/// False: the limit passed first.
bool wait_ready(const file_descriptor& fd, short events, const time_limit& limit) {
  for (;;) {
    pollfd p{fd.get(), events, 0};
    if (::poll(&p, 1, limit.poll_ms()) > 0) return true;
    if (limit.passed()) return false;
  }
}

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

/// Repeats `move(done)`, which returns what a socket call does, until `bytes` have gone through.
template <class Move>
io move_all(const file_descriptor& fd, short events, std::size_t bytes, const time_limit& limit, Move move) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t n = move(done);
    if (n > 0)
      done += static_cast<std::size_t>(n);
    else if (n == 0 || !would_block())
      return io::closed;
    else if (!wait_ready(fd, events, limit))
      return io::late;
  }
  return io::done;
}

}  // namespace

file_descriptor listen_at(const std::string& name, int backlog) {
  const address at = abstract_address(name);
  file_descriptor fd = open_socket();
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&at.name), at.bytes) != 0)
    throw transport_error{
        fmt::format("cannot listen at the abstract Unix socket '{}': {}{}", name, std::strerror(errno),
                    errno == EADDRINUSE ? "; another job of this machine uses the name" : "")};
  if (::listen(fd.get(), backlog) != 0)
    throw transport_error{
        fmt::format("cannot listen at the abstract Unix socket '{}': {}", name, std::strerror(errno))};
  return fd;
}

std::optional<file_descriptor> connect_to(const std::string& name, const time_limit& limit) {
  const address at = abstract_address(name);
  for (;;) {
    file_descriptor fd = open_socket();
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&at.name), at.bytes) == 0) {
      if (!same_user(fd))
        throw transport_error{fmt::format("the abstract Unix socket '{}' belongs to another user", name)};
      return fd;
    }
    // Nobody listens yet, or its queue is full for the moment.
    if (errno != ECONNREFUSED && !would_block())
      throw transport_error{
          fmt::format("cannot connect to the abstract Unix socket '{}': {}", name, std::strerror(errno))};
    if (limit.passed()) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
}

std::optional<file_descriptor> accept_from(const file_descriptor& listener, const time_limit& limit) {
  for (;;) {
    if (!wait_ready(listener, POLLIN, limit)) return std::nullopt;
    file_descriptor fd{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (fd && same_user(fd)) return fd;
    if (!fd && !would_block() && errno != ECONNABORTED)
      throw transport_error{fmt::format("cannot accept a connection: {}", std::strerror(errno))};
  }
}

io send_all(const file_descriptor& to, const void* data, std::size_t bytes, const time_limit& limit) {
  const auto* from = static_cast<const std::byte*>(data);
  return move_all(to, POLLOUT, bytes, limit, [&](std::size_t done) {
    return ::send(to.get(), from + done, bytes - done, MSG_NOSIGNAL);
  });
}

io receive_all(const file_descriptor& from, void* data, std::size_t bytes, const time_limit& limit) {
  auto* to = static_cast<std::byte*>(data);
  return move_all(from, POLLIN, bytes, limit,
                  [&](std::size_t done) { return ::recv(from.get(), to + done, bytes - done, 0); });
}

io send_descriptor(const file_descriptor& to, int fd, std::uint64_t note, const time_limit& limit) {
  iovec payload{&note, sizeof note};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &payload;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  // Eight bytes go as one or not at all.
  return move_all(to, POLLOUT, sizeof note, limit,
                  [&](std::size_t) { return ::sendmsg(to.get(), &message, MSG_NOSIGNAL); });
}

io receive_descriptor(const file_descriptor& from, file_descriptor& fd, std::uint64_t& note,
                      const time_limit& limit) {
  iovec payload{&note, sizeof note};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &payload;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const io result = move_all(from, POLLIN, sizeof note, limit,
                             [&](std::size_t) { return ::recvmsg(from.get(), &message, MSG_CMSG_CLOEXEC); });
  if (result != io::done) return result;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof(int)))
    return io::closed;
  int received = -1;
  std::memcpy(&received, CMSG_DATA(header), sizeof received);
  fd = file_descriptor{received};
  return io::done;
}

std::uint64_t random_bits() {
  std::uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits))
    throw transport_error{fmt::format("no random bits from the kernel: {}", std::strerror(errno))};
  return bits;
}

}  // namespace baton::bootstrap
