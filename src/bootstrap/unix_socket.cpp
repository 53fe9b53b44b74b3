#include "bootstrap/unix_socket.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "baton/error.hpp"

namespace baton::bootstrap {
namespace {

struct address {
  sockaddr_un name{};
  socklen_t bytes = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
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

[[noreturn]] void refuse(const std::string& doing) {
  const bool is_full = errno == EMFILE || errno == ENFILE || errno == ETOOMANYREFS;
  throw transport_error{fmt::format("cannot {}: {}{}", doing, std::strerror(errno),
                                    is_full ? "; raise the limit of open files (ulimit -n)" : "")};
}

file_descriptor open_socket(int type) {
  file_descriptor fd{::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!fd) refuse("open a Unix socket");
  return fd;
}

/// As it was when it connected; nobody where the kernel does not say.
ucred other_end(const file_descriptor& fd) {
  ucred other{0, static_cast<uid_t>(-1), static_cast<gid_t>(-1)};
  socklen_t bytes = sizeof other;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &other, &bytes);
  return other;
}

bool same_user(const file_descriptor& fd) {
  return other_end(fd).uid == ::geteuid();
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

bool other_side_left() {
  return errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN;
}

/// Repeats `move(done)`, which returns what a socket call does, until `bytes` have gone through.
template <class Move>
io move_all(const file_descriptor& fd, short events, std::size_t bytes, const time_limit& limit, Move move) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t n = move(done);
    if (n > 0)
      done += static_cast<std::size_t>(n);
    else if (n == 0 || other_side_left())
      return io::closed;
    else if (!would_block())
      refuse(events == POLLOUT ? "send over a Unix socket" : "receive over a Unix socket");
    else if (!wait_ready(fd, events, limit))
      return io::late;
  }
  return io::done;
}

/// A message of eight bytes and room for descriptors.
struct message_with_descriptors {
  static constexpr std::size_t room = 4;
  alignas(cmsghdr) char control[CMSG_SPACE(room * sizeof(int))] = {};
  iovec payload;
  msghdr header{};

  explicit message_with_descriptors(std::uint64_t& note) : payload{&note, sizeof note} {
    header.msg_iov = &payload;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
  message_with_descriptors(const message_with_descriptors&) = delete;
  message_with_descriptors& operator=(const message_with_descriptors&) = delete;

  /// Owned from here on, so that none stays open whatever is thought of the message.
  std::array<file_descriptor, room> take() {
    std::array<file_descriptor, room> taken;
    std::size_t count = 0;
    for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
      if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
      for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= c->cmsg_len && count < room; at += sizeof(int)) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(c) + at, sizeof fd);
        taken[count++] = file_descriptor{fd};
      }
    }
    return taken;
  }
};

}  // namespace

file_descriptor try_listen(const std::string& name, int backlog) {
  const address at = abstract_address(name);
  file_descriptor fd = open_socket(SOCK_STREAM);
  if (::bind(fd.get(), at.get(), at.bytes) == 0 && ::listen(fd.get(), backlog) == 0) return fd;
  if (errno != EADDRINUSE) refuse(fmt::format("listen at the abstract Unix socket '{}'", name));
  return {};
}

file_descriptor listen_at(const std::string& name, int backlog) {
  file_descriptor fd = try_listen(name, backlog);
  if (fd) return fd;
  throw transport_error{fmt::format(
      "cannot listen at the abstract Unix socket '{}': another job of this machine uses the name", name)};
}

void stop_listening(const file_descriptor& listener) {
  ::shutdown(listener.get(), SHUT_RDWR);
}

file_descriptor try_connect(const std::string& name) {
  const address at = abstract_address(name);
  file_descriptor fd = open_socket(SOCK_STREAM);
  if (::connect(fd.get(), at.get(), at.bytes) == 0) {
    if (!same_user(fd))
      throw transport_error{fmt::format("the abstract Unix socket '{}' belongs to another user", name)};
    return fd;
  }
  if (errno != ECONNREFUSED && !would_block())
    refuse(fmt::format("connect to the abstract Unix socket '{}'", name));
  return {};
}

file_descriptor connect_to(const std::string& name, const time_limit& limit) {
  for (;;) {
    file_descriptor fd = try_connect(name);
    if (fd || limit.passed()) return fd;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
}

file_descriptor try_accept(const file_descriptor& listener) {
  for (;;) {
    file_descriptor fd{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (fd && same_user(fd)) return fd;
    if (fd || errno == ECONNABORTED || errno == EINTR) continue;
    // EINVAL: nobody listens any more, and nobody is left who connected before.
    if (would_block() || errno == EINVAL) return {};
    refuse("accept a connection");
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

std::size_t receive_now(const file_descriptor& from, void* data, std::size_t bytes) {
  const ssize_t n = ::recv(from.get(), data, bytes, MSG_DONTWAIT);
  return n > 0 ? static_cast<std::size_t>(n) : 0;
}

bool has_ended(const file_descriptor& connection) {
  pollfd p{connection.get(), POLLRDHUP, 0};
  return ::poll(&p, 1, 0) > 0;
}

io send_descriptor(const file_descriptor& to, int fd, std::uint64_t note, const time_limit& limit) {
  message_with_descriptors message{note};
  message.header.msg_controllen = CMSG_SPACE(sizeof fd);
  cmsghdr* header = CMSG_FIRSTHDR(&message.header);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  // Eight bytes go as one or not at all.
  return move_all(to, POLLOUT, sizeof note, limit,
                  [&](std::size_t) { return ::sendmsg(to.get(), &message.header, MSG_NOSIGNAL); });
}

file_descriptor receive_descriptor_now(const file_descriptor& from, std::uint64_t& note) {
  message_with_descriptors message{note};
  const ssize_t n = ::recvmsg(from.get(), &message.header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (n <= 0) return {};
  auto taken = message.take();
  if ((message.header.msg_flags & MSG_CTRUNC) != 0 && !taken[0]) {
    errno = EMFILE;  // the kernel says only that there was no room for what came
    refuse("receive a descriptor");
  }
  if (n != sizeof note || taken[1]) return {};
  return std::move(taken[0]);
}

file_descriptor try_claim(const std::string& name) {
  const address at = abstract_address(name);
  file_descriptor fd = open_socket(SOCK_DGRAM);
  if (::bind(fd.get(), at.get(), at.bytes) == 0) return fd;
  if (errno != EADDRINUSE) refuse(fmt::format("take the abstract socket name '{}'", name));
  return {};
}

bool is_claimed(const std::string& name) {
  const address at = abstract_address(name);
  return ::connect(open_socket(SOCK_DGRAM).get(), at.get(), at.bytes) == 0;
}

std::int64_t process_at(const file_descriptor& connection) {
  return other_end(connection).pid;
}

std::uint64_t random_bits() {
  std::uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits))
    refuse("draw random bits from the kernel");
  return bits;
}

}  // namespace baton::bootstrap
