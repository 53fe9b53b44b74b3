#pragma once
// The way of released flags: nothing is assumed that PTX does not promise. Ids are words that are their own news
// (protocol/id_word.hpp), so that no fence stands before them; a unit of a token or of a sum is stored plainly by its warp,
// which then tells of it with a flag (protocol/released_flag.hpp): one fence a warp and unit, whatever the number of ranks.
// What a way is asked: by_lines.hpp.
//
//   rank s                                                   rank d
//     words of all ids                            -- W1 ->     awaits them; derives counts, rows, who sends what
//     units of tokens for d; a flag for each      -- E1 ->     awaits the flags of those that d's experts want
//     awaits the flags; adds up                   <- E1 --     units of sums of these tokens; a flag for each
//
// Of a source with few tokens units go in halves of words (protocol/half_word.hpp), tokens and sums: as many bytes again, and
// no fence. Both ends know how many tokens it has: from the call, or from its ids.
//
// In combine a warp tells of a unit when it has summed up its next one: then the fence waits for little.
//
// Why cells may be used again:
//   - E2: what s reads of d's sum in round n - 1, it has read when its kernels of that round have ended; the flags of its
//     tokens in round n come later, and d, which sends a sum only of a token that it has received, has awaited them: one copy
//     of sums suffices. d's flag of the sum tells s in round n that d has read the token: s may store into its place again
//     from round n + 1 on.
//   - Two copies of tokens, as with lines, leave what is received where it is until a rank's own next dispatch.
//   - W2: ids, halves of words and flags are read at once. s stores its ids of round m when it has acted on those of m - 1,
//     and d its own of m when it has acted on s's of m - 1, as id_lines.hpp says of lines: two copies.
#include "kernels/ep/per_rank/id_words.hpp"
#include "kernels/ep/per_rank/unit.hpp"
#include "protocol/half_word.hpp"
#include "protocol/released_flag.hpp"

namespace baton::ep::per_rank {

struct by_flags {
  using cells = flag_cells;

  template <class X>
  struct ids {
    typename X::template lanes<std::uint64_t> word;
  };
  template <class X, class P>
  static BATON_FN outgoing_words<X> load_ids(X& x, const P& p, int access) {
    return load_id_words(x, p, access);
  }
  template <class X, class P>
  static BATON_FN void store_ids(X& x, const P& p, std::uint64_t epoch, const outgoing_words<X>& ids) {
    store_id_words(x, p, epoch, ids);
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
    const bool in_words = has_words(p, epoch, at.tokens);
    for (int i = 1, to = p.s.rank; i <= p.num_ranks(); ++i) {
      if (++to == p.num_ranks()) to = 0;
      if ((wanted >> to & 1) == 0) continue;
      if (in_words)
        store_half_words(x, p.windows.at[to] + p.window.token_words_at(p.s, epoch, p.s.rank, at.unit), v,
                         epoch, token_words(p, at.unit));
      else
        store(x, p.windows.at[to] + p.window.token_at(p.s, epoch, p.s.rank, at.unit), v);
    }
    if (!in_words)
      tell_flags(x, flags_at(x, p, wanted, p.window.token_flag_at(p.s, epoch, p.s.rank, at.unit)), epoch);
  }

  /// A look would wait for the flag: there is none.
  template <class X, class P>
  static BATON_FN void look(X&, const P&, std::uint64_t, const unit_place&, looked_at<X>& first) {
    first.valid = false;
  }
  template <class X, class P>
  static BATON_FN bool await_unit(X& x, const P& p, std::uint64_t epoch, const unit_place& at,
                                  looked_at<X>& first) {
    if (has_words(p, epoch, at.tokens))
      return await_half_words(
          x, p.windows.at[p.s.rank] + p.window.token_words_at(p.s, epoch, at.rank, at.unit), epoch,
          token_words(p, at.unit), {.where = flag_sites::unit_words(), .peer = at.rank}, first.v);
    typename X::template lanes<std::uint64_t*> flag{};
    x.elect([&] { flag[0] = own_flag(p, p.window.token_flag_at(p.s, epoch, at.rank, at.unit)); });
    if (!await_flags(x, flag, epoch, {.where = flag_sites::unit(), .peer = at.rank})) return false;
    load(x, p.windows.at[p.s.rank] + p.window.token_at(p.s, epoch, at.rank, at.unit), first.v);
    return true;
  }

  struct untold {
    int rank = -1, unit = 0;
    std::uint64_t epoch = 0;
  };
  template <class X, class P>
  static BATON_FN void send_sum(X& x, const P& p, std::uint64_t epoch, const unit_place& at,
                                const typename X::template lanes<vec16>& v, untold& last) {
    const typename X::template lanes<vec16> unit[1] = {v};
    if (has_words(p, epoch, at.tokens))
      return store_half_words(x, p.windows.at[at.rank] + p.window.sum_words_at(p.s.rank, at.unit), unit,
                              epoch, sum_words(p, at.unit));
    tell_sums(x, p, last);
    store(x, p.windows.at[at.rank] + p.window.sum_at(p.s, p.s.rank, at.unit), unit);
    last = {at.rank, at.unit, epoch};
  }
  template <class X, class P>
  static BATON_FN void tell_sums(X& x, const P& p, const untold& last) {
    if (last.rank < 0) return;
    const std::size_t at = p.window.sum_flag_at(p.s, p.s.rank, last.unit);
    tell_flags(x, flags_at(x, p, 1u << last.rank, at), last.epoch);
  }
  /// Those of all ranks at once; of bits that are no rank's, as damage may leave them, nothing is awaited.
  template <class X, class P>
  static BATON_FN bool await_sums(X& x, const P& p, std::uint64_t epoch, std::uint32_t ranks, int unit) {
    if (has_words(p, epoch, p.num_tokens)) return true;
    const std::uint32_t others = ranks & ~(1u << p.s.rank);
    typename X::template lanes<std::uint64_t*> flags;
    x.each_lane([&](int r) {
      flags[r] = r < p.num_ranks() && (others >> r & 1) != 0 ? own_flag(p, p.window.sum_flag_at(p.s, r, unit))
                                                             : nullptr;
    });
    return await_flags(x, flags, epoch,
                       {.where = flag_sites::sum(), .peer = 0, .peer_modulus = p.num_ranks()});
  }
  template <class X, class P>
  static BATON_FN bool take_sum(X& x, const P& p, std::uint64_t epoch, const unit_place& at,
                                typename X::template lanes<vec16> (&v)[1]) {
    if (has_words(p, epoch, at.tokens))
      return await_half_words(x, p.windows.at[p.s.rank] + p.window.sum_words_at(at.rank, at.unit), epoch,
                              sum_words(p, at.unit), {.where = flag_sites::sum_words(), .peer = at.rank}, v);
    load(x, p.windows.at[p.s.rank] + p.window.sum_at(p.s, at.rank, at.unit), v);
    return true;
  }

 private:
  template <class P>
  static BATON_FN std::uint64_t* own_flag(const P& p, std::size_t at) {
    return reinterpret_cast<std::uint64_t*>(p.windows.at[p.s.rank] + at);
  }
  template <class P>
  static BATON_FN bool has_words(const P& p, std::uint64_t epoch, int tokens) {
    return tokens <= p.window.few_tokens && has_half_words(epoch);
  }
  /// Of a lane's part of a unit of a token: how many of its words hold something.
  template <class P>
  static BATON_FN auto token_words(const P& p, int nth) {
    const int unit = nth - p.window.by_token_units.quotient(nth) * p.window.token_units;
    const int bytes = smaller(P::unit.payload, p.payload_bytes() - unit * P::unit.payload);
    const int weights = p.s.top_k - unit * unit_weights;
    return [=](int access, int lane) {
      const int line = lane / lanes_of_line, aux = access * lines_of_access + line;
      if (holds_flag(lane)) return aux < weights ? 2 : P::has_scales && aux * 128 < bytes ? 1 : 0;
      const int chunk = access * chunks_of_access + line * chunks_of_line + lane % lanes_of_line;
      return chunk * static_cast<int>(sizeof(vec16)) < bytes ? words_of_vec : 0;
    };
  }
  /// The same of a sum.
  template <class P>
  static BATON_FN auto sum_words(const P& p, int nth) {
    const int unit = nth - p.window.by_sum_units.quotient(nth) * p.window.sum_units, hidden = p.s.hidden;
    return [=](int, int lane) {
      const lane_columns mine{unit, lane};
      return mine.first < hidden ? mine.count / 2 : 0;
    };
  }
  template <int n, class X>
  static BATON_FN void store(X& x, std::byte* to, const typename X::template lanes<vec16> (&v)[n]) {
    x.each_lane([&](int lane) {
      BATON_UNROLL
      for (int i = 0; i < n; ++i)
        x.write(reinterpret_cast<vec16*>(to + i * line_access_bytes) + lane, v[i][lane]);
    });
  }
  /// Lane r has that in the window of rank r, if it is among `ranks`.
  template <class X, class P>
  static BATON_FN typename X::template lanes<std::uint64_t*> flags_at(X& x, const P& p, std::uint32_t ranks,
                                                                      std::size_t at) {
    typename X::template lanes<std::uint64_t*> flags;
    x.each_lane([&](int r) {
      flags[r] = (ranks >> r & 1) != 0 ? reinterpret_cast<std::uint64_t*>(p.windows.at[r] + at) : nullptr;
    });
    return flags;
  }
  template <int n, class X>
  static BATON_FN void load(X& x, const std::byte* from, typename X::template lanes<vec16> (&v)[n]) {
    x.each_lane([&](int lane) {
      BATON_UNROLL
      for (int i = 0; i < n; ++i)
        v[i][lane] = x.read(reinterpret_cast<const vec16*>(from + i * line_access_bytes) + lane);
    });
  }
};

}  // namespace baton::ep::per_rank
