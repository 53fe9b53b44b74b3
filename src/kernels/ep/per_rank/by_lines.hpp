#pragma once
// The way of lines: ids, units of tokens and units of sums each are their own news (protocol/line.hpp). Kernels of layout
// per_rank are templates on a way; by_flags.hpp is the other. What a way is asked:
//
//   cells                                      what the window holds
//   ids_of_access                              ids that a warp sends at a time
//   ids: load, store to all ranks that are there, await, note in the index, sound: whether what they say can be
//   send_unit(x, p, epoch, place, ranks, v)    a unit, to these ranks
//   look, look_again, await_unit(x, p, epoch, place, first)    the unit's data; the first two do not wait
//   send_sum(x, p, epoch, place, v)            a unit of a sum, to the rank of its token
//   take_sum(x, p, epoch, place, v)            one, once it is here
//   looks_at_sums, look_at_sum(...)            the same at once, if it has that; is_here(x, epoch, v): whether it was
//   clears                                     whether cells are cleared when read; then, by one warp of each rank:
//   tell_cleared(x, p, round)                  tells all ranks that are there that what came before this round is
//   await_cleared(x, p, round)                 until all of them have
#include "kernels/ep/per_rank/id_lines.hpp"
#include "kernels/ep/per_rank/unit.hpp"

namespace baton::ep::per_rank {

struct by_lines {
  using cells = per_rank::cells;
  static constexpr int ids_of_access = per_rank::ids_of_access;
  static constexpr bool clears = false;  // what carries another round's flag is nobody's

  template <class X>
  struct ids {
    typename X::template lanes<vec16> v[1];
  };
  template <class X, class P>
  static BATON_FN outgoing_ids<X> load_ids(X& x, const P& p, int access) {
    return per_rank::load_ids(x, p, access);
  }
  template <class X, class P>
  static BATON_FN void store_ids(X& x, const P& p, const member_round& now, const outgoing_ids<X>& ids) {
    per_rank::store_ids(x, p, now, ids);
  }
  template <class X, class P>
  static BATON_FN bool await_ids(X& x, const P& p, std::uint64_t epoch, const id_access& at, ids<X>& seen) {
    const std::byte* from = p.windows.at[p.s.rank] + p.window.ids_at(p.s, epoch, at.source, at.access);
    return await_lines(x, line_places<1>{{from}}, epoch, {.where = id_sites::ids(), .peer = at.source},
                       seen.v);
  }
  template <class X, class P>
  static BATON_FN void note_ids(X& x, const P& p, const row_index<P>& rows, const id_access& at,
                                const ids<X>& seen) {
    per_rank::note_ids(x, p, rows, {at.source, at.access * ids_of_access}, seen.v[0]);
  }
  template <class X, class P>
  static BATON_FN bool sound_ids(X& x, const P& p, std::uint64_t epoch, int source, const ids<X>& seen) {
    return per_rank::sound_ids(x, p, epoch, source, seen.v[0]);
  }

  template <class X, class P>
  static BATON_FN void send_unit(X& x, const P& p, std::uint64_t epoch, const unit_place& at,
                                 std::uint32_t wanted,
                                 const typename X::template lanes<vec16> (&v)[unit_accesses]) {
    for (int i = 1, to = p.s.rank; i <= p.num_ranks(); ++i) {
      if (++to == p.num_ranks()) to = 0;
      if ((wanted >> to & 1) == 0) continue;
      std::byte* cell = p.windows.at[to] + p.window.token_at(p.s, epoch, p.s.rank, at.unit);
      x.store_lines(cell, v[0]);
      x.store_lines(cell + line_access_bytes, v[1]);
    }
  }

  /// One look at a warp's first unit: whether its lines will come at all is known only when rows are.
  template <class X, class P>
  static BATON_FN void look(X& x, const P& p, std::uint64_t epoch, const unit_place& at,
                            looked_at<X>& first) {
    first.at = at;
    first.valid = at.unit < p.s.max_tokens * p.window.token_units;
    if (!first.valid) return;
    x.load_lines(lines_of_unit(p, epoch, at), first.v);
  }
  /// Once more when rows are known, if the unit was not here: it comes while the token's rows are found.
  template <class X, class P>
  static BATON_FN void look_again(X& x, const P& p, std::uint64_t epoch, const unit_place& at,
                                  looked_at<X>& first) {
    if (first.valid && !all_carry(x, first.v, line_flag(epoch))) look(x, p, epoch, at, first);
  }
  template <class X, class P>
  static BATON_FN bool await_unit(X& x, const P& p, std::uint64_t epoch, const unit_place& at,
                                  looked_at<X>& first) {
    if (first.valid && all_carry(x, first.v, line_flag(epoch))) return true;
    return await_lines(x, lines_of_unit(p, epoch, at), epoch, {.where = index_sites::line(), .peer = at.rank},
                       first.v);
  }

  template <class X, class P>
  static BATON_FN void send_sum(X& x, const P& p, std::uint64_t, const unit_place& at,
                                const typename X::template lanes<vec16>& v) {
    x.store_lines(p.windows.at[at.rank] + p.window.sum_at(p.s, p.s.rank, at.unit), v);
  }
  template <class X, class P>
  static BATON_FN bool take_sum(X& x, const P& p, std::uint64_t epoch, const unit_place& at,
                                typename X::template lanes<vec16> (&v)[1]) {
    const std::byte* cell = p.windows.at[p.s.rank] + p.window.sum_at(p.s, at.rank, at.unit);
    return await_lines(x, line_places<1>{{cell}}, epoch, {.where = sum_sites::line(), .peer = at.rank}, v);
  }

  static constexpr bool looks_at_sums = true;
  template <class X, class P>
  static BATON_FN void look_at_sum(X& x, const P& p, const unit_place& at,
                                   typename X::template lanes<vec16> (&v)[1]) {
    v[0] = x.load_lines(p.windows.at[p.s.rank] + p.window.sum_at(p.s, at.rank, at.unit));
  }
  template <class X>
  static BATON_FN bool is_here(X& x, std::uint64_t epoch, const typename X::template lanes<vec16> (&v)[1]) {
    return all_carry(x, v, line_flag(epoch));
  }

 private:
  template <class P>
  static BATON_FN line_places<unit_accesses> lines_of_unit(const P& p, std::uint64_t epoch,
                                                           const unit_place& at) {
    const std::byte* first = p.windows.at[p.s.rank] + p.window.token_at(p.s, epoch, at.rank, at.unit);
    return {{first, first + line_access_bytes}};
  }
};

}  // namespace baton::ep::per_rank
