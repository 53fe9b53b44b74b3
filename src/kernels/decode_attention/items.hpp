#pragma once
// How the work is dealt out, on the device, from the lengths that stand there.
//
//   line    | head 0: sequence 0: item 0 | item 1 | ... | sequence 1: item 0 | ... | head 1 ...    in units of 128 keys
//   parts   |    team 0     |    team 1     |    team 2     | ...                         of the same length
//
// Items of the same length, of which there are no more than teams, get whole teams, some one more than others: no team has parts
// of two. That is done if it leaves nobody a quarter more than an equal part. Blocks of items with one team more keep fewer slots
// of their ring in flight, so that all end at about the same time.
//
// An item is the rows of a group of heads, up to 64 of them, of a sequence: all heads that share a head of K and V. A cut that
// falls into a short item moves to one of its ends. Within a team each block has an equal share of a part's pieces of 16 keys.
// Teams that read the same sequence's heads at a time stand one head's length apart: these lie beside each other in memory.
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
/// Of lengths as `read(at)` finds them.
template <class Read>
BATON_FN sequence_work work_by(const params& p, int sequence, Read read) {
  sequence_work w{.row = sequence * p.max_rows, .tokens = p.max_rows};
  if (p.first_rows != nullptr) {
    // Lengths that make no sense reach no memory but the tensors'.
    w.row = smaller(larger(read(p.first_rows + sequence), 0), p.all_rows);
    const int end = smaller(larger(read(p.first_rows + sequence + 1), 0), p.all_rows);
    w.tokens = smaller(larger(end - w.row, 0), p.max_rows);
  }
  w.keys = smaller(larger(read(p.lengths + sequence), 0), p.max_keys);
  const int first_seen = larger(w.keys - w.tokens - p.left, 0);
  w.first_piece = first_seen / piece_keys;
  w.end_piece = larger(ceil_div(w.keys, piece_keys), w.first_piece);
  w.units = w.tokens == 0 ? 0 : larger(ceil_div(w.end_piece - w.first_piece, unit_pieces), 1);
  return w;
}

template <class X>
BATON_FN sequence_work work_of(X& x, const params& p, int sequence) {
  return work_by(p, sequence, [&](const std::int32_t* at) { return x.read(at); });
}

/// Items that a head has of a sequence. Items of 64 rows are few, so for them the longest sequence's number is taken for all: it
/// takes less time to know.
template <bool by_rows>
BATON_FN int items_of(const params& p, const sequence_work& w) {
  if constexpr (by_rows) return p.first_rows == nullptr ? p.row_blocks : ceil_div(w.tokens, p.block_tokens);
  return p.row_blocks;
}

/// Teams are of 1, 2, 4 or 8 blocks: what is divided by that is shifted, by so many bits.
template <class X>
BATON_FN int team_bits(X& x) {
  const int team = x.cluster_blocks();
  return (team > 1) + (team > 2) + (team > 4);
}
template <class X>
BATON_FN int shared_by_team(X& x, int n) {
  return n >> team_bits(x);
}

/// (a * b + more) / c of what is not negative: of words where these have room, as that takes a tenth of the time.
BATON_FN int scaled(int a, int b, int c, int more = 0) {
  if (a >> 20 == 0 && b >> 10 == 0)
    return static_cast<int>((static_cast<std::uint32_t>(a * b) + static_cast<std::uint32_t>(more)) /
                            static_cast<std::uint32_t>(c));
  return static_cast<int>((std::int64_t{a} * b + more) / c);
}
/// Where the n-th of `parts` parts of the line begins, if no item is short.
BATON_FN int cut_of(int total, int parts, int n) {
  return scaled(total, n, parts);
}

/// One warp deals out the line. `by_rows`: sequences have as many items as their rows take (items_of).
template <class X, bool by_rows>
class dealer {
  using ints = typename X::template lanes<int>;

 public:
  /// `early`: others may still be writing the lengths. `spare`: slots that a block with less to read leaves empty.
  BATON_FN dealer(X& x, const params& p, int spare, bool early)
      : x_{x}, p_{p}, spare_{spare}, share_{ceil_div(p.sequences, warp_lanes)} {
    const auto read = [&](const std::int32_t* at) {
      return early ? x_.template load<order::relaxed, scope::device>(at) : x_.read(at);
    };
    x_.each_lane([&](int lane) {
      sum_[lane] = 0, most_[lane] = 0, seen_[lane] = 0;
      if (early && share_ == 1 && lane < p_.sequences) {
        seen_[lane] = read(p_.lengths + lane);
        const sequence_work w = work_by(p_, lane, [&](const std::int32_t* at) {
          return at == p_.lengths + lane ? seen_[lane] : read(at);
        });
        sum_[lane] = w.units * items_of<by_rows>(p_, w), most_[lane] = w.units;
        return;
      }
      for (int i = lane * share_; i < smaller((lane + 1) * share_, p_.sequences); ++i) {
        const sequence_work w = work_by(p_, i, read);
        sum_[lane] += w.units * items_of<by_rows>(p_, w), most_[lane] = larger(most_[lane], w.units);
      }
    });
  }

  /// To team `team` of `teams`.
  BATON_FN dealt_work deal(int team, int teams) {
    const int parts = parts_of(teams), even = even_parts(parts);
    if (team >= parts) return {};
    if (even > 0) return evenly(team, even);
    dealt_work w{};
    w.begin = locate(cut_of(total_, parts, team));
    const line_place end = locate(cut_of(total_, parts, team + 1));
    w.end = end.position;
    if (w.begin.position > w.begin.start) w.of_first = sharers_of(w.begin, parts);
    if (end.position > end.start) w.of_last = sharers_of(end, parts);
    return w;
  }

  /// The same, if it follows from what lanes know, whatever the lengths have become since. False: it does not.
  BATON_FN bool deal_evenly(int team, int teams, dealt_work& w) {
    const int parts = parts_of(teams), even = even_parts(parts);
    if (team < parts && even > 0) w = evenly(team, even);
    return team >= parts || even > 0;
  }
  /// Whether all that is dealt by are the lengths that were seen early.
  BATON_FN bool knows_all() const { return share_ == 1 && p_.first_rows == nullptr; }
  /// One of these, which stands at `at`.
  BATON_FN int seen(const std::int32_t* at) { return x_.broadcast(seen_, static_cast<int>(at - p_.lengths)); }
  /// What was seen early is what stands there now, said in few instructions; false where these do not say.
  BATON_FN bool still_right() {
    if (!knows_all()) return false;
    typename X::template lanes<bool> differs;
    x_.each_lane(
        [&](int lane) { differs[lane] = lane < p_.sequences && x_.read(p_.lengths + lane) != seen_[lane]; });
    return x_.ballot(differs) == 0;
  }
  /// deal_evenly() of both says the same.
  BATON_FN bool agrees(const dealer& other) {
    typename X::template lanes<bool> differs;
    x_.each_lane([&](int lane) {
      differs[lane] = sum_[lane] != other.sum_[lane] || most_[lane] != other.most_[lane];
    });
    return x_.ballot(differs) == 0;
  }

 private:
  /// How many parts there are for `teams`.
  BATON_FN int parts_of(int teams) {
    x_.each_lane([&](int lane) { up_to_[lane] = sum_[lane]; });
    inclusive_scan(x_, up_to_);
    of_head_ = x_.broadcast(up_to_, warp_lanes - 1), total_ = of_head_ * p_.kv_heads;
    const int enough = larger(total_ / larger(p_.short_units / 2, 1), items());
    return smaller(smaller(teams, total_), enough);
  }
  BATON_FN int items() const { return p_.sequences * p_.items_of_sequence(); }
  /// Into how many whole teams' parts items of the same length are cut; 0: they are not of the same, or that would be uneven.
  BATON_FN int even_parts(int parts) {
    const int units = units_of_all();
    if (units == 0) return 0;
    if (units <= p_.short_units && items() <= parts) return items();
    const int whole = parts / items();
    return whole > 0 && parts * 4 <= whole * items() * 5 ? parts : 0;
  }
  BATON_FN int units_of(int sequence) {
    const sequence_work w = work_of(x_, p_, sequence);
    return w.units * items_of<by_rows>(p_, w);
  }
  /// Of each item, or 0 if there are different ones, or sequences have different numbers of them.
  BATON_FN int units_of_all() {
    const int units = x_.broadcast(most_, 0);
    typename X::template lanes<bool> other;
    x_.each_lane([&](int lane) {
      const int sequences = larger(smaller(p_.sequences - lane * share_, share_), 0);
      other[lane] =
          sum_[lane] != units * p_.row_blocks * sequences || (sequences > 0 && most_[lane] != units);
    });
    return x_.ballot(other) == 0 ? units : 0;
  }
  /// Of no more items than `parts`, with as many units each: teams of an item are those from item * parts / items on.
  BATON_FN dealt_work evenly(int team, int parts) {
    if (team >= parts) return {};
    const int units = x_.broadcast(most_, 0);
    const int of_a_head = p_.sequences * p_.row_blocks, items = of_a_head * p_.kv_heads;
    const int item = ((team + 1) * items - 1) / parts, rest = item % of_a_head;
    const int first = item * parts / items, count = (item + 1) * parts / items - first;
    const auto cut = [&](int n) { return item * units + scaled(units, n, count); };
    dealt_work w{.begin = {item / of_a_head, rest / p_.row_blocks, rest % p_.row_blocks, item * units,
                           cut(team - first)},
                 .end = cut(team - first + 1)};
    if (count > 1) w.of_first = w.of_last = {first, count};
    // Memory is shared as copies are in flight: who has less to read leaves it to others. Of two teams each has half as much, and
    // is done before others however it reads.
    if (count > 2 && count * items > parts) w.spared = spare_;
    return w;
  }
  /// The item that a place of the line is in, or the next one.
  BATON_FN line_place locate(int place) {
    if (place >= total_) return {p_.kv_heads, 0, 0, total_, total_};
    const int head = place / of_head_, before = head * of_head_, rest = place - before;
    typename X::template lanes<bool> behind;
    x_.each_lane([&](int lane) { behind[lane] = up_to_[lane] > rest; });
    const std::uint32_t lanes = x_.ballot(behind);
    int lane = 0;
    while ((lanes >> lane & 1) == 0) ++lane;
    int sequence = lane * share_, start = x_.broadcast(up_to_, lane) - x_.broadcast(sum_, lane);
    while (start + units_of(sequence) <= rest) start += units_of(sequence++);
    const int units = work_of(x_, p_, sequence).units, index = (rest - start) / units;
    line_place w{head, sequence, index, before + start + index * units, place};
    if (units > p_.short_units) return w;
    const bool next = (place - w.start) * 2 >= units;
    w.index += next, w.start += next ? units : 0;
    w.position = w.start;
    return w;
  }
  /// Cuts that are inside of the item: cut_of(n) > start and < start + units.
  BATON_FN sharers sharers_of(const line_place& at, int parts) {
    const int end = at.start + work_of(x_, p_, at.sequence).units;
    // The first that is at `place` or behind it: cuts are rounded down.
    const auto next_cut = [&](int place) { return scaled(place, parts, total_, total_ - 1); };
    const int first = next_cut(at.start + 1);
    return {first - 1, next_cut(end) - first + 1};
  }

  X& x_;
  const params& p_;
  int spare_, share_, of_head_, total_;
  ints seen_;                // lengths of each lane's sequence, if it has one
  ints sum_, up_to_, most_;  // units of each lane's sequences; of all up to those
};

/// A warp's walk through the team's work. Where products leave no registers for it, what it is at is kept in shared memory.
template <config C, class X>
class walk {
 public:
  BATON_FN walk(X& x, const params& p) : x_{x}, p_{p} {}

  /// In front of the first part of what has been dealt.
  BATON_FN void start() {
    const dealt_work* const w = block_plan<C>{}.dealt(x_);
    keep(part{
        .number = -1,
        .next = {known_to_all(x_, x_.read(&w->begin.head)), known_to_all(x_, x_.read(&w->begin.sequence)),
                 known_to_all(x_, x_.read(&w->begin.index)), known_to_all(x_, x_.read(&w->begin.start)),
                 known_to_all(x_, x_.read(&w->begin.position))}});
  }

  /// On to the next part. False: there is none.
  BATON_FN bool next() {
    return next_by([&](const std::int32_t* at) { return x_.read(at); });
  }
  /// The same, of lengths as `read(at)` finds them.
  template <class Read>
  BATON_FN bool next_by(Read read) {
    const part before = now();
    line_place at = before.next;
    const int end = known_to_all(x_, x_.read(&block_plan<C>{}.dealt(x_)->end));
    while (at.position < end) {
      const sequence_work s = work_by(p_, at.sequence, read);
      if (at.index == items_of<C.e4m3>(p_, s) || s.units == 0) {
        ++at.sequence, at.index = 0;
        if (at.sequence == p_.sequences) ++at.head, at.sequence = 0;
        continue;
      }
      part w = part_of(s, at, end);
      at.position = smaller(at.start + s.units, end);
      if (at.position == at.start + s.units) at.start = at.position, ++at.index;
      if (w.tokens <= 0) continue;
      w.number = before.number + 1;
      w.turn = before.turn + ceil_div(before.tokens * p_.heads_of_group, round_rows);
      w.next = at;
      keep(w);
      return true;
    }
    return false;
  }
  /// What it is at.
  BATON_FN part now() const {
    if constexpr (!C.keeps_parts()) return now_;
    const part* const w = block_plan<C>{}.parts(x_) + x_.warp();
    return {x_.read(&w->sequence),
            x_.read(&w->kv_head),
            x_.read(&w->row),
            x_.read(&w->token),
            x_.read(&w->tokens),
            x_.read(&w->diagonal),
            x_.read(&w->keys),
            x_.read(&w->first_piece),
            x_.read(&w->end_piece),
            {x_.read(&w->of.first), x_.read(&w->of.count)},
            x_.read(&w->number),
            x_.read(&w->turn),
            {x_.read(&w->next.head), x_.read(&w->next.sequence), x_.read(&w->next.index),
             x_.read(&w->next.start), x_.read(&w->next.position)}};
  }

  /// Whether consumer group `group` has some of its rows.
  BATON_FN bool has_rows(int group) const {
    return group * C.rows_of_group() < now().tokens * p_.heads_of_group;
  }

 private:
  BATON_FN void keep(const part& w) {
    if constexpr (!C.keeps_parts()) {
      now_ = w;
      return;
    }
    const auto* const from = reinterpret_cast<const std::int32_t*>(&w);
    auto* const to = reinterpret_cast<std::int32_t*>(block_plan<C>{}.parts(x_) + x_.warp());
    x_.sync_warp();
    x_.elect([&] {
      BATON_UNROLL
      for (int i = 0; i < static_cast<int>(sizeof w / 4); ++i) x_.write(to + i, from[i]);
    });
    x_.sync_warp();
  }
  BATON_FN part part_of(const sequence_work& s, const line_place& at, int end) {
    const dealt_work* const dealt = block_plan<C>{}.dealt(x_);
    part w{};
    w.sequence = at.sequence;
    w.kv_head = at.head;
    w.token = at.index * p_.block_tokens;
    w.row = s.row + w.token;
    w.tokens = smaller(s.tokens - w.token, p_.block_tokens);
    w.diagonal = w.token + s.keys - s.tokens;
    w.keys = s.keys;
    const int first = s.first_piece + (at.position - at.start) * unit_pieces;
    const int behind = s.first_piece + (smaller(at.start + s.units, end) - at.start) * unit_pieces;
    const int pieces = larger(smaller(behind, s.end_piece) - first, 0), block = x_.cluster_block();
    w.first_piece = first + shared_by_team(x_, pieces * block);
    w.end_piece = first + shared_by_team(x_, pieces * (block + 1));
    if (at.position > at.start)
      w.of = {x_.read(&dealt->of_first.first), x_.read(&dealt->of_first.count)};
    else if (at.start + s.units > end)
      w.of = {x_.read(&dealt->of_last.first), x_.read(&dealt->of_last.count)};
    return w;
  }

  X& x_;
  const params& p_;
  part now_{};
};

}  // namespace baton::decode_attention
