#pragma once
// What the simulated network has under way between ranks that stores do not reach (exec/far.hpp): puts, cut into parts, and
// signals. Each part is read and, in a later step, written; between the two anybody may run. Which goes next is the schedule's
// choice; a fence alone holds what comes behind it back, and of a put with a word of its own all its parts hold that word back.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace baton::sim {

struct network_message {
  int from = 0, to = 0;  // ranks
  std::byte* target = nullptr;
  const std::byte* source = nullptr;  // null: a signal
  std::size_t bytes = 0;
  std::uint64_t word = 0;    // of a signal
  std::uint64_t fences = 0;  // of its rank, before it
  std::uint64_t pair = 0;    // the same for all parts of a put and the word of its own; 0: it has none
  std::uint64_t priority = 0;
  bool is_read = false;
  std::vector<std::byte> held{};
};

/// What one rank has given the network for another one.
struct network_traffic {
  std::uint64_t puts = 0, bytes = 0, signals = 0;
};

/// Messages of one network, oldest first.
class network {
 public:
  void send(network_message m) { under_way_.push_back(std::move(m)); }
  std::uint64_t next_pair() { return ++pairs_; }
  bool is_quiet() const { return under_way_.empty(); }
  std::size_t size() const { return under_way_.size(); }
  network_message& at(std::size_t i) { return under_way_[i]; }

  /// Whether the i-th may be written: nothing that it has to come behind is left.
  bool may_arrive(std::size_t i) const {
    for (std::size_t j = 0; j < i; ++j)
      if (is_behind(under_way_[i], under_way_[j])) return false;
    return true;
  }
  bool can_go_on(std::size_t i) const {
    return (under_way_[i].source != nullptr && !under_way_[i].is_read) || may_arrive(i);
  }
  network_message take(std::size_t i) {
    network_message m = std::move(under_way_[i]);
    under_way_.erase(under_way_.begin() + static_cast<std::ptrdiff_t>(i));
    return m;
  }
  /// What a rank's memory, which may go, is the source of.
  void drop_from(int rank) {
    std::erase_if(under_way_, [&](const network_message& m) { return m.from == rank; });
  }

 private:
  /// What has a pair is behind no fence, and no fence is for it.
  static bool is_behind(const network_message& m, const network_message& older) {
    if (m.pair != 0) return m.source == nullptr && older.pair == m.pair;
    return older.pair == 0 && older.from == m.from && older.to == m.to && older.fences < m.fences;
  }

  std::vector<network_message> under_way_;
  std::uint64_t pairs_ = 0;
};

}  // namespace baton::sim
