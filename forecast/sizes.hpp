#pragma once
// How many bytes messages have, as the layouts' own code says (kernels/ep).
#include "forecast/question.hpp"

namespace baton::forecast {

/// Bytes. A message is a token on its way to an expert (per_expert) or a rank (per_rank); a reply is its row or sum on its way
/// back.
///
/// Within the p2p group layout per_rank sends lines, or chunks, as transfer_of() says. Beyond it lines' flags cannot be relied
/// on, so there it is chunks, whose words are signals, one behind each put. With two levels a token travels between groups as
/// chunks have it, with its ids behind it, since a forwarder has not heard them from elsewhere. GPUs have kernels for layout
/// per_expert with one level beyond the group, and the CPU machine for chunks of per_rank, which put few tokens' sums in parts.
struct message_sizes {
  int near_message, near_reply;
  int far_message, far_reply;
  int group_message, group_reply;  // two levels
  int near_ids, far_ids;           // of all tokens, from each rank to each other one, before tokens; 0: none
  int row_payload;                 // payload and scales
  bool tokens_stay;                // where they arrive: nobody copies them
  bool near_in_chunks;             // per_rank
  std::size_t
      window_bytes;  // of a rank, that peers write into; 0: not known (lines of more ranks than kernels take)
};

message_sizes sizes_of(const question& q);

inline constexpr int signal_bytes = 8;

}  // namespace baton::forecast
