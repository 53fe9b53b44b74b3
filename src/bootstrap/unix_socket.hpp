#pragma once
// Stream sockets in the abstract Unix namespace: no files, gone with their process. Every call is bounded by
// a time_limit, and a connection counts only if its other end belongs to the same user. All throw transport_error
// for what the kernel refuses, such as another descriptor.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "bootstrap/file_descriptor.hpp"
#include "bootstrap/time_limit.hpp"

namespace baton::bootstrap {

/// Longest abstract name that fits a socket address.
inline constexpr std::size_t longest_socket_name = 100;

/// Empty: another socket listens there.
file_descriptor try_listen(const std::string& name, int backlog);

/// Throws transport_error if the name is taken or too long.
file_descriptor listen_at(const std::string& name, int backlog);

/// Nobody can connect any more; connections that were made before can still be accepted.
void stop_listening(const file_descriptor& listener);

/// Empty: nobody listens, or its queue is full for the moment.
file_descriptor try_connect(const std::string& name);

/// Tries until somebody listens; empty if the limit passes first.
file_descriptor connect_to(const std::string& name, const time_limit& limit);

/// The next connection of the same user, without waiting; empty: none for now.
file_descriptor try_accept(const file_descriptor& listener);

enum class io { done, late, closed };  // closed: by the other side

io send_all(const file_descriptor& to, const void* data, std::size_t bytes, const time_limit& limit);
io receive_all(const file_descriptor& from, void* data, std::size_t bytes, const time_limit& limit);

/// What arrived on a connection so far, at most `bytes`, without waiting; 0: nothing, or the other side closed.
std::size_t receive_now(const file_descriptor& from, void* data, std::size_t bytes);

/// Whether the other side closed the connection. What it sent before may still be there.
bool has_ended(const file_descriptor& connection);

/// The process that made the connection, by its number here; 0: it is not seen from here.
std::int64_t process_at(const file_descriptor& connection);

/// A descriptor travels with eight bytes that say whose it is.
io send_descriptor(const file_descriptor& to, int fd, std::uint64_t note, const time_limit& limit);

/// Without waiting. Empty: what arrived is something else.
file_descriptor receive_descriptor_now(const file_descriptor& from, std::uint64_t& note);

/// A datagram socket that has the name as long as it lives, to which nobody sends; empty: another has it.
file_descriptor try_claim(const std::string& name);
bool is_claimed(const std::string& name);

/// 64 bits from the kernel's random source.
std::uint64_t random_bits();

}  // namespace baton::bootstrap
