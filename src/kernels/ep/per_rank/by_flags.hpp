#pragma once
// The way of flags: nothing is assumed that PTX does not promise, and no fence stands between data and its news. Ids are words
// that are their own news (protocol/id_word.hpp); units of tokens and sums are lines whose words are (protocol/cleared_line.hpp),
// which who reads them clears. That they are cleared each rank tells every rank once a round, with a released flag
// (protocol/released_flag.hpp) that nobody is in a hurry for. What a way is asked: by_lines.hpp.
//
//   rank s                                                   rank d
//     flag: all before this round is cleared      -- E1 ->     awaits it before its dispatch ends
//     words of all ids                            -- W1 ->     awaits them; derives counts, rows, who sends what
//     units of tokens for d                       -- W1 ->     takes those that d's experts want, and clears them
//     takes them, clears them, adds up            <- W1 --     units of sums of these tokens
//
// Why cells may be used again:
//   - W2: d clears a token of round n in its dispatch of n, and s stores into its place in that of n + 2. Between them lies the
//     flag of n + 1 (E1), released in d's next dispatch and acquired in s's, and the ends of kernels on both sides.
//   - s clears a sum of round n in its combine, and d stores the next one there in its combine of n + 1: between them lies the
//     same flag. One copy of sums suffices.
//   - A rank's own tokens, which it sends to itself, are cleared two of its own kernels before.
//   - Every unit that is sent is taken, since both ends know from the ids alone which ones are, and combine has as many tokens as
//     its round's dispatch: a round leaves no word behind, whatever the next one sends.
//   - A rank that gave up takes, clears and tells nothing more, nor is it awaited for longer than a deadline: its peers miss its
//     ids, its flag or its sums. There is no round after that in the same memory: whoever lost work makes a communicator anew,
//     and memory that was released comes back as zeros, with rounds counted from 1 on every rank.
//   - Two copies of tokens, as with lines: s may be a round ahead of d.
//   - Ids and flags are read at once. s stores those of round m when it has acted on those of m - 1, and d its own of m when it
//     has acted on s's of m - 1, as id_lines.hpp says of lines: two copies.
#include "kernels/ep/per_rank/id_words.hpp"
#include "kernels/ep/per_rank/unit.hpp"
#include "protocol/cleared_line.hpp"
#include "protocol/released_flag.hpp"

namespace baton::ep::per_rank {

struct by_flags {
  using cells = flag_cells;
  static constexpr int ids_of_access = ids_of_word_access;
  static constexpr bool clears = true;

  template <class X>
  struct ids {
    typename X::template lanes<std::uint64_t> word;
  };
  template <class X, class P>
  static BATON_FN outgoing_words<X> load_ids(X& x, const P& p, int access) {
    return load_id_words(x, p, access);
  }
  template <class X, class P>
  static BATON_FN void store_ids(X& x, const P& p, const member_round& now, const outgoing_words<X>& ids) {
    store_id_words(x, p, now, ids);
  }
  template <class X, class P>
  static BATON_FN bool await_ids(X& x, const P& p, std::uint64_t epoch, const id_access& at, ids<X>& seen) {
    return await_id_words(x, p, epoch, at, seen.word);
  }
  template <class X, class P>
  static BATON_FN void note_ids(X& x, const P& p, const row_index<P>& rows, const id_access& at,
                                const ids<X>& seen) {
    note_id_words(x, p, rows, at, seen.word);
  }
  template <class X, class P>
  static BATON_FN bool sound_ids(X& x, const P& p, std::uint64_t epoch, int source, const ids<X>& seen) {
    return sound_id_words(x, p, epoch, source, seen.word);
  }

  template <class X, class P>
  static BATON_FN void send_unit(X& x, const P& p, std::uint64_t epoch, const unit_place& at,
                                 std::uint32_t wanted,
                                 const typename X::template lanes<vec16> (&v)[unit_accesses]) {
    for (int i = 1, to = p.s.rank; i <= p.num_ranks(); ++i) {
      if (++to == p.num_ranks()) to = 0;
      if ((wanted >> to & 1) == 0) continue;
      store_cleared_lines(x, p.windows.at[to] + p.window.token_at(p.s, epoch, p.s.rank, at.unit), v,
                          parts_of_token(p, at.unit));
    }
  }

  /// Words that are not here would be looked at twice: there is no look.
  template <class X, class P>
  static BATON_FN void look(X&, const P&, std::uint64_t, const unit_place&, looked_at<X>& first) {
    first.valid = false;
  }
  template <class X, class P>
  static BATON_FN void look_again(X&, const P&, std::uint64_t, const unit_place&, looked_at<X>&) {}
  template <class X, class P>
  static BATON_FN bool await_unit(X& x, const P& p, std::uint64_t epoch, const unit_place& at,
                                  looked_at<X>& first) {
    return take_cleared_lines(x, p.windows.at[p.s.rank] + p.window.token_at(p.s, epoch, at.rank, at.unit),
                              epoch, parts_of_token(p, at.unit),
                              {.where = flag_sites::unit(), .peer = at.rank}, first.v);
  }

  template <class X, class P>
  static BATON_FN void send_sum(X& x, const P& p, std::uint64_t, const unit_place& at,
                                const typename X::template lanes<vec16>& v) {
    const typename X::template lanes<vec16> unit[1] = {v};
    store_cleared_lines(x, p.windows.at[at.rank] + p.window.sum_at(p.s, p.s.rank, at.unit), unit,
                        parts_of_sum(p, at.unit));
  }
  template <class X, class P>
  static BATON_FN bool take_sum(X& x, const P& p, std::uint64_t epoch, const unit_place& at,
                                typename X::template lanes<vec16> (&v)[1]) {
    return take_cleared_lines(x, p.windows.at[p.s.rank] + p.window.sum_at(p.s, at.rank, at.unit), epoch,
                              parts_of_sum(p, at.unit), {.where = flag_sites::sum(), .peer = at.rank}, v);
  }

  static constexpr bool looks_at_sums = false;

  template <class X, class P>
  static BATON_FN void tell_cleared(X& x, const P& p, const member_round& now) {
    typename X::template lanes<std::uint64_t*> flags;
    x.each_lane([&](int r) {
      const bool is_told = r < p.num_ranks() && now.has(r);
      flags[r] = is_told ? flag_in(p, r, p.window.cleared_at(p.s, now.epoch, p.s.rank)) : nullptr;
    });
    tell_flags(x, flags, now.epoch);
  }
  template <class X, class P>
  static BATON_FN bool await_cleared(X& x, const P& p, const member_round& now) {
    typename X::template lanes<std::uint64_t*> flags;
    x.each_lane([&](int r) {
      const bool tells = r < p.num_ranks() && now.has(r);
      flags[r] = tells ? flag_in(p, p.s.rank, p.window.cleared_at(p.s, now.epoch, r)) : nullptr;
    });
    return await_flags(x, flags, now.epoch,
                       {.where = flag_sites::cleared(), .peer = 0, .peer_modulus = p.num_ranks()});
  }

 private:
  template <class P>
  static BATON_FN std::uint64_t* flag_in(const P& p, int rank, std::size_t at) {
    return reinterpret_cast<std::uint64_t*>(p.windows.at[rank] + at);
  }
  /// Which lanes' parts of a unit of a token hold something: a line's last one, where another of the line does.
  template <class P>
  static BATON_FN auto parts_of_token(const P& p, int nth) {
    const int unit = nth - p.window.by_token_units.quotient(nth) * p.window.token_units;
    static_assert(!P::unit.scales_in_data);
    const int bytes = smaller(P::unit.payload, p.payload_bytes() - unit * P::unit.payload);
    const int weights = p.s.top_k - unit * unit_weights;
    return [=](int access, int lane) {
      const int line = access * lines_of_access + lane / lanes_of_line;
      const int chunk = line * chunks_of_line + (holds_flag(lane) ? 0 : lane % lanes_of_line);
      return chunk * static_cast<int>(sizeof(vec16)) < bytes || (holds_flag(lane) && line < weights);
    };
  }
  /// The same of a sum.
  template <class P>
  static BATON_FN auto parts_of_sum(const P& p, int nth) {
    const int unit = nth - p.window.by_sum_units.quotient(nth) * p.window.sum_units, hidden = p.s.hidden;
    using columns = lane_columns_in<P::format>;
    return [=](int, int lane) {
      return columns{unit, lane}.first < hidden ||
             (holds_flag(lane) && columns{unit, lane - lane % lanes_of_line}.first < hidden);
    };
  }
};

}  // namespace baton::ep::per_rank
