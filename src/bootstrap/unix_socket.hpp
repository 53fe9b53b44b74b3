#pragma once
// Stream sockets in the abstract Unix namespace: no files, gone with their process. Every call is bounded by
// a time_limit, and a connection counts only if its other end belongs to the same user.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "bootstrap/file_descriptor.hpp"
#include "bootstrap/time_limit.hpp"

namespace baton::bootstrap {

/// Longest abstract name that fits a socket address.
inline constexpr std::size_t longest_socket_name = 100;

/// Throws transport_error if the name is taken or too long.
file_descriptor listen_at(const std::string& name, int backlog);

/// Tries until somebody listens; nothing if the limit passes first.
std::optional<file_descriptor> connect_to(const std::string& name, const time_limit& limit);

/// The next connection of the same user; nothing if the limit passes first.
std::optional<file_descriptor> accept_from(const file_descriptor& listener, const time_limit& limit);

enum class io { done, late, closed };

io send_all(const file_descriptor& to, const void* data, std::size_t bytes, const time_limit& limit);
io receive_all(const file_descriptor& from, void* data, std::size_t bytes, const time_limit& limit);

/// A descriptor travels with eight bytes that say whose it is.
io send_descriptor(const file_descriptor& to, int fd, std::uint64_t note, const time_limit& limit);
io receive_descriptor(const file_descriptor& from, file_descriptor& fd, std::uint64_t& note,
                      const time_limit& limit);

/// 64 bits from the kernel's random source.
std::uint64_t random_bits();

}  // namespace baton::bootstrap
