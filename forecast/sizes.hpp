#pragma once
// How many bytes messages have, as the layouts' own code says (kernels/ep).
#include "forecast/question.hpp"

namespace baton::forecast {

/// Bytes. A message is a token on its way to an expert (per_expert) or a rank (per_rank); a reply is its row or sum on its way
/// back.
///
/// Where all ranks are one p2p group layout per_rank sends lines, or chunks, as transfer_of() says. Else it is chunks, whose
/// words are signals, one behind each put, of a token, of a part of a sum, of a line of ids. Layout per_expert has no kernels
/// with two levels: there a token would travel between groups as chunks have it, with its ids behind it, since a forwarder has
/// not heard them from elsewhere.
struct message_sizes {
  int near_message, near_reply;
  int far_message, far_reply;
  int group_message, group_reply;  // two levels
  int parts_of_reply;              // that far and group replies are put in
  int near_ids, far_ids;           // of all tokens, from each rank to each other one, before tokens; 0: none
  int far_id_puts;                 // that these are put in
  int row_payload;                 // payload and scales
  int tile_tokens,
      tile_warps;       // two levels: a source's tokens that one block forwards, and its warps that do
  bool tokens_stay;     // where they arrive: nobody copies them
  bool near_in_chunks;  // per_rank
  std::size_t
      window_bytes;  // of a rank, that peers write into; 0: not known (lines of more ranks than kernels take)
};

message_sizes sizes_of(const question& q);

inline constexpr int signal_bytes = 8;

}  // namespace baton::forecast
