#pragma once
// Everybody who connects to a listener is heard at the same time: whoever says nothing holds nobody up.
#include <chrono>
#include <cstddef>
#include <vector>

#include "bootstrap/file_descriptor.hpp"
#include "bootstrap/time_limit.hpp"

namespace baton::bootstrap {

class incoming_connections {
 public:
  /// At most `expected` connections and a few strangers stay open at a time; if more come, the one that has been
  /// silent longest has to go, though none before it had a second to speak.
  incoming_connections(const file_descriptor& listener, int expected);

  /// A connection on which something has arrived, or that has ended. Empty: nothing so far; returns after a
  /// fraction of a second at the latest, for the caller to look around.
  file_descriptor next(const time_limit& limit);

 private:
  struct silent {
    file_descriptor connection;
    time_limit::clock::time_point since;
  };
  void accept_one();
  bool has_room();

  const file_descriptor& listener_;
  std::size_t most_;
  std::vector<silent> silent_;  // oldest first
};

}  // namespace baton::bootstrap
