#pragma once
// How the work is dealt out, on the device, from the lengths that stand there.
//
//   line    | sequence 0: item 0 (head 0) | item 1 | ... | sequence 1: item 0 | ...       in units of 128 keys
//   parts   |    team 0     |    team 1     |    team 2     | ...                         of the same length
//
// An item is the rows of a group of heads, up to 64 of them, of a sequence: all heads that share a head of K and V. A cut that
// falls into a short item moves to one of its ends. Within a team each block has an equal share of a part's pieces of 16 keys.
// Each role walks through the team's part by itself; all come to the same.
#include "exec/collectives.hpp"
#include "kernels/decode_attention/params.hpp"

namespace baton::decode_attention {

/// A sequence's rows, and what of its keys some of them see.
struct sequence_work {
  std::int32_t row, tokens;  // the first in all sequences' rows, how many
  std::int32_t keys;
  std::int32_t first_piece, end_piece;
  std::int32_t units;  // of each of its items; at least 1 where there are rows, as somebody has to make them
};
template <class X>
BATON_FN sequence_work work_of(X& x, const params& p, int sequence) {
  sequence_work w{.row = sequence * p.max_rows, .tokens = p.max_rows};
  if (p.first_rows != nullptr) {
    // Lengths that make no sense reach no memory but the tensors'.
    w.row = smaller(larger(x.read(p.first_rows + sequence), 0), p.all_rows);
    const int end = smaller(larger(x.read(p.first_rows + sequence + 1), 0), p.all_rows);
    w.tokens = smaller(larger(end - w.row, 0), p.max_rows);
  }
  w.keys = smaller(larger(x.read(p.lengths + sequence), 0), p.max_keys);
  const int first_seen = larger(w.keys - w.tokens - p.left, 0);
  w.first_piece = first_seen / piece_keys;
  w.end_piece = larger(ceil_div(w.keys, piece_keys), w.first_piece);
  w.units = w.tokens == 0 ? 0 : larger(ceil_div(w.end_piece - w.first_piece, unit_pieces), 1);
  return w;
}

/// Where the n-th of `parts` parts of the line begins, if no item is short.
BATON_FN int cut_of(int total, int parts, int n) {
  return static_cast<int>(std::int64_t{total} * n / parts);
}

/// One warp deals out the line.
template <class X>
class dealer {
  using ints = typename X::template lanes<int>;

 public:
  BATON_FN dealer(X& x, const params& p) : x_{x}, p_{p}, share_{ceil_div(p.sequences, warp_lanes)} {
    x_.each_lane([&](int lane) {
      sum_[lane] = 0;
      for (int i = lane * share_; i < smaller((lane + 1) * share_, p_.sequences); ++i)
        sum_[lane] += units_of(i);
      up_to_[lane] = sum_[lane];
    });
    inclusive_scan(x_, up_to_);
    total_ = x_.broadcast(up_to_, warp_lanes - 1);
  }

  /// To team `team` of `teams`.
  BATON_FN dealt_work deal(int team, int teams) {
    const int enough = larger(total_ / p_.short_units, p_.sequences * p_.items_of_sequence());
    const int parts = smaller(smaller(teams, total_), enough);
    if (team >= parts) return {};
    dealt_work w = locate(cut_of(total_, parts, team));
    w.end = locate(cut_of(total_, parts, team + 1)).position;
    w.total = total_, w.parts = parts;
    return w;
  }

 private:
  BATON_FN int units_of(int sequence) { return work_of(x_, p_, sequence).units * p_.items_of_sequence(); }
  /// The item that a place of the line is in, or the next one.
  BATON_FN dealt_work locate(int place) {
    typename X::template lanes<bool> behind;
    x_.each_lane([&](int lane) { behind[lane] = up_to_[lane] > place; });
    const std::uint32_t lanes = x_.ballot(behind);
    if (lanes == 0) return {.sequence = p_.sequences, .position = total_};
    int lane = 0;
    while ((lanes >> lane & 1) == 0) ++lane;
    int sequence = lane * share_, start = x_.broadcast(up_to_, lane) - x_.broadcast(sum_, lane);
    while (start + units_of(sequence) <= place) start += units_of(sequence++);
    const int units = work_of(x_, p_, sequence).units, index = (place - start) / units;
    dealt_work w{.sequence = sequence, .index = index, .start = start + index * units, .position = place};
    if (units > p_.short_units) return w;
    const bool next = (place - w.start) * 2 >= units;
    w.index += next, w.start += next ? units : 0;
    w.position = w.start;
    return w;
  }

  X& x_;
  const params& p_;
  int share_, total_;
  ints sum_, up_to_;  // units of each lane's sequences; of all up to those
};

/// What a team does of an item.
struct part {
  std::int32_t sequence, kv_head;
  std::int32_t row, token;           // in all sequences' rows, in the sequence's: of the first
  std::int32_t tokens;               // rows of each head
  std::int32_t diagonal;             // the key that stands beside the first token
  std::int32_t keys;                 // of the sequence
  std::int32_t first_piece, pieces;  // of the team
  std::int32_t start, units;         // of the item, on the line

  /// Those of block `block` of `team`.
  BATON_FN int first_of(int block, int team) const {
    return first_piece + static_cast<int>(std::int64_t{pieces} * block / team);
  }
};

/// Who the parts of an item belong to: `count` teams from `first` on.
struct sharers {
  std::int32_t first, count;
};
/// Cuts that are inside of it: cut_of(n) > start and < start + units.
BATON_FN sharers sharers_of(const params& p, const dealt_work& line, const part& w) {
  if (w.units <= p.short_units) return {0, 1};
  const auto next_cut = [&](int place) {  // the first that is at `place` or behind it
    return static_cast<int>(ceil_div(std::int64_t{place} * line.parts, std::int64_t{line.total}));
  };
  const int first = next_cut(w.start + 1);
  return {first - 1, next_cut(w.start + w.units) - first + 1};
}

/// A role's walk through the team's part of the line.
template <config C, class X>
class walk {
 public:
  BATON_FN walk(X& x, const params& p) : x_{x}, p_{p}, at_{line()} {}

  BATON_FN dealt_work line() {
    const dealt_work* w = block_plan<C>{}.dealt(x_);
    return {x_.read(&w->sequence), x_.read(&w->index), x_.read(&w->start), x_.read(&w->position),
            x_.read(&w->end),      x_.read(&w->total), x_.read(&w->parts)};
  }
  /// The next part. False: there is none.
  BATON_FN bool next(part& to) {
    while (at_.position < at_.end) {
      const sequence_work s = work_of(x_, p_, at_.sequence);
      if (at_.index == p_.items_of_sequence() || s.units == 0) {
        ++at_.sequence, at_.index = 0;
        continue;
      }
      to = part_of(s);
      at_.position = smaller(at_.start + s.units, at_.end);
      if (at_.position == at_.start + s.units) at_.start = at_.position, ++at_.index;
      if (to.tokens > 0) return true;
    }
    return false;
  }

 private:
  BATON_FN part part_of(const sequence_work& s) {
    part w{};
    w.sequence = at_.sequence;
    w.kv_head = at_.index / p_.row_blocks;
    w.token = at_.index % p_.row_blocks * p_.block_tokens;
    w.row = s.row + w.token;
    w.tokens = smaller(s.tokens - w.token, p_.block_tokens);
    w.diagonal = w.token + s.keys - s.tokens;
    w.keys = s.keys;
    w.start = at_.start, w.units = s.units;
    w.first_piece = s.first_piece + (at_.position - at_.start) * unit_pieces;
    const int end = s.first_piece + (smaller(at_.start + s.units, at_.end) - at_.start) * unit_pieces;
    w.pieces = larger(smaller(end, s.end_piece) - w.first_piece, 0);
    return w;
  }

  X& x_;
  const params& p_;
  dealt_work at_;
};

}  // namespace baton::decode_attention
