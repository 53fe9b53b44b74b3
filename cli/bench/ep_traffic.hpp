#pragma once
// Bytes of an exchange, from routing alone.
#include <cstdint>
#include <span>
#include <vector>

#include "baton/expert_parallel.hpp"

namespace baton::cli {

/// Counts what ranks send each other. A row is one token on its way to one expert; layout per_expert sends a message for
/// each row, per_rank one for all rows of a token on a rank, and each message is answered by one row: of bf16, or with per_rank
/// in combine_format.
class ep_traffic {
 public:
  ep_traffic(const ep_config& config, int num_ranks);

  /// The ids of one rank's tokens of one round; what is no expert is passed over.
  void count(int source, std::span<const std::int32_t> topk_idx);

  int num_ranks() const { return num_ranks_; }
  std::uint64_t rows_between(int source, int destination) const { return rows_[at(source, destination)]; }
  std::uint64_t messages_between(int source, int destination) const {
    return messages_[at(source, destination)];
  }

  /// As it crosses a link. per_expert: payload, scales padded to 16 bytes, source info. per_rank: whole units of 8 lines
  /// of 128 bytes; a unit has room for 896 bytes of payload, 768 of e2m1, and 8 router weights. In chunks: payload, scales
  /// and weights, each padded to 16 bytes. Flags, eight bytes for each unit, are not counted; few tokens by
  /// flags are payload, scales and weights in words of which half is data.
  std::uint64_t message_bytes() const { return message_bytes_; }
  /// per_expert, and in chunks: hidden x bf16. per_rank in lines and by flags: whole units of 4; a unit has room for 240 columns.
  /// In block FP8 chunks send values and scales, and a unit has room for 384 columns.
  std::uint64_t reply_bytes() const { return reply_bytes_; }
  /// Of a message: tokens and scales alone.
  std::uint64_t row_bytes() const { return row_bytes_; }

  /// From rank to rank: messages, with per_rank and the ids that go before them, each round room for as many as there may
  /// be; and replies on their way back.
  std::uint64_t dispatch_bytes(int from, int to) const {
    return messages_between(from, to) * message_bytes_ + ids_[at(from, to)];
  }
  std::uint64_t combine_bytes(int from, int to) const { return messages_between(to, from) * reply_bytes_; }

  /// What the busiest rank sends to other ranks, and what the busiest one gets from them.
  std::uint64_t most_dispatch_bytes_out() const;
  std::uint64_t most_combine_bytes_out() const;
  std::uint64_t most_dispatch_bytes_in() const;
  std::uint64_t most_combine_bytes_in() const;
  /// What the busiest rank would send with a message, and a reply, for each row.
  std::uint64_t most_dispatch_bytes_of_rows_out() const;
  std::uint64_t most_combine_bytes_of_rows_out() const;
  /// Rows that a rank gets from itself and others, and the busiest rank's.
  std::uint64_t rows_received(int rank) const;
  std::uint64_t most_rows_received() const;

 private:
  std::size_t at(int source, int destination) const {
    return static_cast<std::size_t>(source) * static_cast<std::size_t>(num_ranks_) +
           static_cast<std::size_t>(destination);
  }
  /// Of the busiest rank, bytes(rank, other) of all others.
  template <class Bytes>
  std::uint64_t most_of_ranks(Bytes bytes) const;

  ep_config config_;
  int num_ranks_;
  std::uint64_t row_bytes_, message_bytes_, reply_bytes_;
  std::vector<int> home_;                             // [experts]: the owner
  std::vector<std::uint64_t> rows_, messages_, ids_;  // [source, destination]; ids in bytes
};

}  // namespace baton::cli
