#include "forecast/kernel_time.hpp"

#include <algorithm>
#include <cmath>

#include "base/math.hpp"

namespace baton::forecast {
namespace {

constexpr double warps_that_move_chunks = 132 * 16;  // of an H100, all of whose multiprocessors take part

double of_rank(const std::vector<double>& all, int rank) {
  return all[static_cast<std::size_t>(rank)];
}

/// What layout per_rank reads and writes for puts: what is put was written to where it is put from, `written` of it, and is read
/// for each put; and what is forwarded is read.
double bytes_for_puts(const question& q, const phase& p, int rank, double written) {
  return q.per_expert() ? 0 : of_rank(p.put_bytes, rank) + written + of_rank(p.forwarded_bytes, rank);
}

}  // namespace

/// A token is written once to where it is put from, however often it is put.
double dispatch_bytes(const question& q, const message_sizes& sizes, const routed& routing, const phase& p,
                      int rank) {
  const double rows = static_cast<double>(routing.rows_of(rank)),
               tokens = static_cast<double>(routing.tokens_at(rank)), payload = sizes.row_payload;
  if (q.per_expert()) return 2 * rows * payload;
  const double copies = q.config.rows == ep_rows::by_expert ? rows
                        : sizes.tokens_stay                 ? -tokens
                                                            : tokens,
               all_own = static_cast<double>(q.tokens()) * sizes.far_message;
  return (tokens + copies) * payload +
         bytes_for_puts(q, p, rank, std::min(of_rank(p.put_bytes, rank), all_own));
}

double combine_bytes(const question& q, const routed& routing, const phase& p, int rank) {
  const double own = q.tokens(), row_back = 2.0 * q.config.hidden, result = 4.0 * q.config.hidden;
  if (q.per_expert()) return own * (q.config.top_k * row_back + result);
  return static_cast<double>(routing.rows_of(rank)) * row_back + own * result +
         bytes_for_puts(q, p, rank, of_rank(p.put_bytes, rank));
}

/// Until all that the rank sends has left, and all that it is sent is there. On one host that is no sooner than its links have
/// taken both what goes to its group and what is put.
double kernel_time::links_us(int rank) const {
  const double until = std::max(of_rank(p_.sent_us, rank), of_rank(p_.arrived_us, rank));
  if (!q_.links.one_host) return until;
  return std::max(
      {until, of_rank(p_.through.near_out.busy_us, rank), of_rank(p_.through.near_in.busy_us, rank)});
}

/// With two levels, how many of the tokens that come together a warp forwards one after the other: a tile of a source's is
/// one block's, whose warps that send share it. Further tiles arrive meanwhile. Sums are anybody's, and layout per_expert has
/// no such kernels.
int kernel_time::forwarded_in_turn(int rank) const {
  if (sizes_.tile_tokens == 0) return 1;
  const double tiles = (q_.groups() - 1.0) * ceil_div(std::max(1, q_.tokens()), sizes_.tile_tokens),
               forwarded = of_rank(p_.forwarded_bytes, rank) / sizes_.group_message;
  const double of_tile = std::min<double>(sizes_.tile_tokens, std::ceil(forwarded / tiles));
  return std::max(1, ceil_div(static_cast<int>(of_tile), sizes_.tile_warps));
}

/// Layout per_expert copies and adds up what has arrived in kernels of their own, per_rank meanwhile. Beyond the group a warp
/// puts what it has written itself: until each has read and written a message, nobody's memory hides behind anybody's links.
double kernel_time::end_us(int rank, double memory_bytes) const {
  const double links = links_us(rank), memory = memory_us(memory_bytes),
               forwarding = q_.forwards() ? cost_.forward_us * forwarded_in_turn(rank) : 0,
               beside = cost_.fixed_us + forwarding;
  if (q_.per_expert()) return beside + links + memory;
  if (q_.groups() == 1) return beside + std::max(links, memory);
  const double in_hand = memory_us(2 * warps_that_move_chunks * message_bytes_);
  return beside + std::max(links + std::min(memory, in_hand), memory);
}

}  // namespace baton::forecast
