#include "bootstrap/incoming_connections.hpp"

#include <poll.h>

#include <utility>

#include "baton/error.hpp"
#include "bootstrap/unix_socket.hpp"

namespace baton::bootstrap {
namespace {

constexpr std::size_t most_strangers = 64;
constexpr std::chrono::seconds patience{1};

}  // namespace

incoming_connections::incoming_connections(const file_descriptor& listener, int expected)
    : listener_{listener}, most_{static_cast<std::size_t>(expected) + most_strangers} {}

bool incoming_connections::has_room() {
  if (silent_.size() < most_) return true;
  if (time_limit::clock::now() - silent_.front().since < patience) return false;
  silent_.erase(silent_.begin());
  return true;
}

void incoming_connections::accept_one() try {
  file_descriptor fd = try_accept(listener_);
  if (fd) silent_.push_back({std::move(fd), time_limit::clock::now()});
} catch (const transport_error&) {
  // Out of descriptors. Those who are here may speak and go; who connects next waits that long.
  if (silent_.empty()) throw;
  most_ = silent_.size();
}

file_descriptor incoming_connections::next(const time_limit& limit) {
  std::vector<pollfd> events{{has_room() ? listener_.get() : -1, POLLIN, 0}};
  for (const silent& s : silent_) events.push_back({s.connection.get(), POLLIN, 0});
  if (::poll(events.data(), events.size(), limit.poll_ms()) <= 0) return {};
  for (std::size_t i = 0; i < silent_.size(); ++i) {
    if (events[i + 1].revents == 0) continue;
    file_descriptor fd = std::move(silent_[i].connection);
    silent_.erase(silent_.begin() + static_cast<std::ptrdiff_t>(i));
    return fd;
  }
  if (events[0].revents != 0) accept_one();
  return {};
}

}  // namespace baton::bootstrap
