#pragma once
// Trains as ranks send them off, and how trains pass what is between two ranks.
#include "forecast/phase.hpp"

namespace baton::forecast {

/// What goes to a rank beyond the group of one token: bytes in some puts, and signals behind them.
struct put {
  int bytes, puts, signals;
};
double cost_of(const link_facts& links, const put& what);
void note_far(phase& all, int from, std::uint32_t count, const put& what);

/// What one rank sends in a phase. Its links and its network card each take its messages one after the other, so a train's
/// messages come to them at a pace that they can keep; what others send through the same card comes in between.
class sender {
 public:
  sender(const question& q, phase& all, int rank) : q_{q}, all_{all}, rank_{rank} {}

  /// Messages that leave in turn: all trains of a block have theirs among each other's.
  struct block {
    double near_begin, far_begin;
    std::size_t near_trains, far_trains;
  };
  block begin_block(const std::vector<train>& near, const std::vector<train>& far) const {
    return {near_us_, far_us_, near.size(), far.size()};
  }
  void end_block(const block& b, std::vector<train>& near, std::vector<train>& far) const;

  void send_near(int to, std::uint32_t count, int bytes, std::vector<train>& near);
  void send_far(int to, std::uint32_t count, const put& what, std::vector<train>& far);
  void send_signals(int to, int count, std::vector<train>& far);
  void send_ids(const message_sizes& sizes, int to, std::vector<train>& near, std::vector<train>& far);

 private:
  /// Messages of one cost, one after the other, on what is free from `free_us` on.
  void queue(double& free_us, double cost, int to, std::uint32_t count, std::vector<train>& trains);

  const question& q_;
  phase& all_;
  int rank_;
  double near_us_ = 0, far_us_ = 0;
};

void pass_links(const question& q, phase& all, std::vector<train>& near);
void pass_network(const question& q, phase& all, std::vector<train>& far);
void note_arrivals(phase& all, const std::vector<train>& trains);

}  // namespace baton::forecast
