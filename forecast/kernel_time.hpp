#pragma once
// What a phase takes on each rank: its messages, and what kernels do beside.
#include "forecast/forecast.hpp"

namespace baton::forecast {

/// One phase of a round, as a rank's kernels see it.
class kernel_time {
 public:
  /// message_bytes: a token, or a sum, as it lies in memory.
  kernel_time(const question& q, const message_sizes& sizes, const phase& p, const kernel_cost& cost,
              double message_bytes)
      : q_{q}, sizes_{sizes}, p_{p}, cost_{cost}, message_bytes_{message_bytes} {}

  /// memory_bytes: what it reads and writes in its own memory.
  double memory_us(double memory_bytes) const { return memory_bytes / (1e3 * cost_.copy_gb_per_s); }
  double end_us(int rank, double memory_bytes) const;

 private:
  double links_us(int rank) const;
  int forwarded_in_turn(int rank) const;

  const question& q_;
  const message_sizes& sizes_;
  const phase& p_;
  const kernel_cost& cost_;
  double message_bytes_;
};

/// Bytes that a rank reads and writes in its own memory.
double dispatch_bytes(const question& q, const message_sizes& sizes, const routed& routing, const phase& p,
                      int rank);
double combine_bytes(const question& q, const routed& routing, const phase& p, int rank);

}  // namespace baton::forecast
