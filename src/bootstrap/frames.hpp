#pragma once
// What ranks that are processes say to each other over a Unix socket.
//
//   client -> rank 0   hello once; then for every all-gather: request, payload
//   rank 0 -> client   an answer to each: granted, then the gathered payload; or refused, then why
#include <cstdint>
#include <string>
#include <vector>

#include "bootstrap/file_descriptor.hpp"
#include "bootstrap/job_identity.hpp"
#include "bootstrap/time_limit.hpp"
#include "bootstrap/unix_socket.hpp"

namespace baton::bootstrap {

/// Where and as whom a process meets the other ranks.
struct rendezvous_config {
  std::string name;  // of the abstract Unix socket
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds deadline{30'000};
  job_identity job = job_of_this_process();
};

inline constexpr std::uint64_t hello_magic = 0x6261746f6e68656c;  // whoever says something else is a stranger
inline constexpr std::uint32_t protocol_version = 2;

struct hello {
  std::uint64_t magic = hello_magic;
  std::uint32_t version = protocol_version;
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::int32_t unused = 0;
  job_identity job;
};

/// `token` is what rank 0 drew for this world and told its ranks with the first answer.
struct request {
  std::uint64_t token = 0;
  std::uint64_t round = 0;
  std::uint64_t bytes = 0;
};

enum class verdict : std::uint32_t { none, granted, refused };

struct answer {
  verdict what = verdict::none;
  std::uint32_t reason_bytes = 0;
  std::uint64_t token = 0;
};

/// Tells the other side why, as far as it listens; bounded by a second.
void send_refusal(const file_descriptor& to, const std::string& why);

struct received_answer {
  io how = io::closed;  // closed: also if only a part of it came, or nothing that makes sense
  verdict what = verdict::none;
  std::uint64_t token = 0;
  std::string reason;
};
received_answer receive_answer(const file_descriptor& from, const time_limit& limit);

/// Clients give rank 0 this much longer than it gives them, so that its answer arrives before they give up.
std::chrono::milliseconds with_grace(std::chrono::milliseconds deadline);

/// "rank 1 of 4 waited 300 ms for rank 2 to join..."
std::string late_text(const rendezvous_config& m, std::chrono::milliseconds waited,
                      const std::vector<int>& missing, const std::string& what);

}  // namespace baton::bootstrap
