#pragma once
// A part of a token in combine, 1,024 columns at a time. A warp loads these of one addend, 2 KB of bf16, then of the next, and
// adds each to sums in registers as it comes, while the next two are on their way (one, where sums travel in FP8); of a to d:
//
//   loads   a 0 | b 0 | c 0 |           d 0 |           a 1 |           b 1 |           c 1 | ...
//   adds                    | a 0 ......    | b 0 ......    | c 0 ......    | d 0, finish   | a 1 ...
//
// Pieces of rows, because rows lie in as many pages as there are: where few SMs load, combine of four ranks took half as long
// again and more with 512 bytes to 2 KB of each in turn (docs/decisions/0020).
#include "kernels/ep/per_rank_chunks/token_sum.hpp"

namespace baton::ep::per_rank_chunks {

inline constexpr int steps_of_set = columns_of_set / (warp_lanes * columns_of_lane);

/// What a lane loads of an addend at a time, 2 KB of a warp.
struct addend_values {
  vec16 at[steps_of_set];
};

/// Up to 32 addends: a warp's rows by choice, ranks' sums ascending, the row of shared experts.
template <token_format Sums, bool with_ranks, class X, class Finish>
class set_sums {
  static constexpr int sets = Sums == token_format::bf16 && !is_of_warp<Finish> ? 3 : 2;
  using values = typename X::template lanes<addend_values>;

 public:
  BATON_FN set_sums(X& x, const column_range& c, const addends<X>& all, Finish& finish)
      : x_{x}, c_{c}, all_{all}, finish_{finish}, count_{all.count()}, rows_{count_bits(all.choices)} {
    list();
    if (with_ranks && all.are_apart())
      keeps_before_ = rows_, joins_behind_ = rows_ + count_bits(all.below) - 1;
  }

  /// ready() when the first loads are on their way.
  template <class Ready>
  BATON_FN void run(Ready ready) {
    values in_turn[sets];
    BATON_UNROLL
    for (int k = 0; k < sets; ++k) load(in_turn[k]);
    ready();
    while (turn<0>(in_turn)) {
    }
  }

 private:
  /// False: the range has ended. Which values are meant is known when this is compiled: registers cannot be chosen later.
  template <int k>
  BATON_FN bool turn(values (&in_turn)[sets]) {
    if (!add(in_turn[k])) return false;
    load(in_turn[k]);
    if constexpr (k + 1 < sets) return turn<k + 1>(in_turn);
    return true;
  }

  /// Lane i gets the i-th.
  BATON_FN void list() {
    std::uint32_t choices = all_.choices, ranks = all_.below | all_.above;
    BATON_ROLLED
    for (int i = 0; i < count_; ++i) {
      const bool is_row = !with_ranks || choices != 0;
      const std::uint32_t left = is_row ? choices : ranks;
      const int at = left != 0 ? lowest_bit(left) : 0;
      const std::uint32_t row = x_.broadcast(all_.rows.first, at), sum = x_.broadcast(all_.sums.first, at);
      const float weight = x_.broadcast(all_.rows.weight, at);
      x_.each_lane([&](int lane) {
        if (lane != i) return;
        first_of_[lane] = is_row ? row : left != 0 ? sum : 0;
        weight_of_[lane] = is_row ? weight : 1.0f;  // fma(1, v, s) is s + v
      });
      ranks = is_row ? ranks : ranks & (ranks - 1);
      choices &= choices - 1;
    }
  }
  BATON_FN bool is_row(int nth) const { return !with_ranks || nth < rows_; }
  BATON_FN bool is_shared(int nth) const { return with_ranks && all_.shared != nullptr && nth + 1 == count_; }
  /// Whether it is another rank's sum and not of bf16, as rows are.
  BATON_FN bool is_narrow(int nth) const {
    return Sums != token_format::bf16 && !is_row(nth) && !is_shared(nth);
  }

  BATON_FN void load(values& to) {
    if (load_first_ >= c_.end) return;
    const std::uint32_t first = x_.broadcast(first_of_, loaded_);
    const vec16* from = (is_row(loaded_)      ? all_.rows.base
                         : is_shared(loaded_) ? all_.shared
                                              : all_.sums.base) +
                        first;
    const bool is_narrow_sum = is_narrow(loaded_);
    const auto load_from = [&](auto place_of) {
      x_.each_lane([&](int lane) {
        BATON_UNROLL
        for (int s = 0; s < steps_of_set; ++s) {
          const int place = place_of(s, lane);
          to[lane].at[s] = is_narrow_sum ? read_sum<Sums>(x_, c_, from, place) : x_.read(from + place);
        }
      });
    };
    if (load_first_ + steps_of_set * warp_lanes <= c_.end)
      load_from([this](int s, int lane) { return load_first_ + lane + s * warp_lanes; });
    else
      load_from([this](int s, int lane) { return c_.place(load_first_, s, lane); });
    if (++loaded_ < count_) return;
    loaded_ = 0;
    load_first_ += steps_of_set * warp_lanes;
  }

  /// False: the range has ended.
  BATON_FN bool add(const values& of) {
    if (with_ranks && added_ == keeps_before_) keep();
    const float weight = x_.broadcast(weight_of_, added_);
    if (is_narrow(added_))
      add_as<Sums>(of, weight);
    else
      add_as<token_format::bf16>(of, weight);
    if (with_ranks && added_ == joins_behind_) join();
    if (++added_ < count_) return true;
    added_ = 0;
    finish();
    first_ += steps_of_set * warp_lanes;
    return first_ < c_.end;
  }

  template <token_format As>
  BATON_FN void add_as(const values& of, float weight) {
    x_.each_lane([&](int lane) {
      BATON_UNROLL
      for (int s = 0; s < steps_of_set; ++s) add_sum<As>(sums_[s].of[lane].at, weight, of[lane].at[s]);
    });
  }

  template <int step = 0>
  BATON_FN void finish() {
    step_sums<X>& sum = sums_[step];
    if constexpr (is_of_warp<Finish>)
      finish_(first_ + step * warp_lanes, sum);
    else
      x_.each_lane([&](int lane) {
        if (c_.has(first_, step, lane)) finish_(c_.place(first_, step, lane), sum.of[lane].at);
      });
    sum = {};
    if constexpr (step + 1 < steps_of_set) finish<step + 1>();
  }

  /// This rank's rows, until those of ranks below are added up.
  BATON_FN void keep() {
    each_kept([&](float* kept, float& sum) {
      x_.write(kept, sum);
      sum = 0.0f;
    });
  }
  BATON_FN void join() {
    each_kept([&](const float* kept, float& sum) { sum += x_.read(kept); });
  }
  template <class F>
  BATON_FN void each_kept(F f) {
    x_.each_lane([&](int lane) {
      BATON_UNROLL
      for (int s = 0; s < steps_of_set; ++s) {
        BATON_UNROLL
        for (int i = 0; i < columns_of_lane; ++i)
          f(all_.kept + (s * columns_of_lane + i) * warp_lanes + lane, sums_[s].of[lane].at[i]);
      }
    });
  }

  X& x_;
  const column_range& c_;
  const addends<X>& all_;
  Finish& finish_;
  int count_, rows_;
  int keeps_before_ = -1, joins_behind_ = -1;
  int loaded_ = 0, load_first_ = c_.begin;  // the next to load
  int added_ = 0, first_ = c_.begin;        // the next to add
  typename X::template lanes<std::uint32_t> first_of_{};
  typename X::template lanes<float> weight_of_{};
  step_sums<X> sums_[steps_of_set];
};

/// One warp: finish(vec16 of the token, 8 sums), by one lane each, for all that the range has; before the first, ready().
/// `with_ranks`: there may be sums of other ranks.
template <token_format Sums, bool with_ranks, class X, class Ready, class Finish>
BATON_FN void sum_up(X& x, const column_range& c, const addends<X>& all, Ready ready, Finish finish) {
  if (all.own == nullptr && all.count() > 0 && all.count() <= warp_lanes)
    return set_sums<Sums, with_ranks, X, Finish>{x, c, all, finish}.run(ready);
  ready();
  sum_in_order<Sums>(x, c, all, finish);
}

}  // namespace baton::ep::per_rank_chunks
