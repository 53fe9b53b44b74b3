#pragma once
// The feeding half of pair attention: the loader and the issuer of matrix products. See pair_attention.hpp.
//
// Work, as far as these roles ask it:
//   load(x, piece, slot, filled)   fetches the block's half of the piece; the leader also makes the arrival that
//                                  expects the bytes of both blocks. All bytes count on the leader's `filled`
//   issue(x, step)                 one issue of products, asynchronous and in order
//   commit(x, barrier, to)         see mma_commit.hpp
#include "protocol/pair_attention/shape.hpp"

namespace baton {

template <class Shape, async_exec_context X, class Work>
BATON_FN bool loader_role(X& x, const typename Shape::mbars& bars, int num_tiles, Work& work) {
  auto slots = bars.kv().producer();
  const auto load = [&](const kv_piece& piece) {
    if (!piece.with_q && !slots.producer_acquire(x, attention_site(attention_sites::slot_free(), piece.tile)))
      return false;  // K2
    work.load(x, piece, slots.index(), slots.producer_mbar());
    slots.step();
    return true;
  };
  const auto keys = [&](int tile) {
    for (int stage = 0; stage < Shape::qk_stages; ++stage)
      if (!load({tile, stage, -1, tile == 0})) return false;
    return true;
  };
  const auto values = [&](int tile) {
    for (int half = 0; half < Shape::output_halves; ++half)
      for (int stage = 0; stage < Shape::pv_stages; ++stage)
        if (!load({tile, stage, half, false})) return false;
    return true;
  };
  return for_tiles_in_order<Shape::look_ahead>(num_tiles, keys, values);
}

/// The leader's issuer: both products of a tile, with the pipelines they go through.
template <class Shape, async_exec_context X, class Work>
class issuer {
 public:
  BATON_FN issuer(X& x, const typename Shape::mbars& bars, Work& work)
      : x_{x}, bars_{bars}, work_{work}, slots_{bars.kv().consumer()} {}

  BATON_FN bool scores(int tile) { return tile % 2 == 0 ? scores(tile, even_, 0) : scores(tile, odd_, 1); }

  BATON_FN bool output(int tile) {
    if (!output(tile, lo_, 0)) return false;
    if constexpr (Shape::output_halves == 2) return output(tile, hi_, 1);
    return true;
  }

 private:
  using s_end = typename Shape::mbars::s_pipeline_producer;
  using o_end = decltype(typename Shape::mbars{}.producer_o_lo());

  BATON_FN bool scores(int tile, s_end& s, int buffer) {
    if (tile > 0 && !s.acquire(x_, attention_site(attention_sites::s_free(), tile))) return false;  // A2
    for (int stage = 0; stage < Shape::qk_stages; ++stage)
      if (!product({tile, stage, slots_.index(), buffer, -1})) return false;
    s.commit_mma(x_, work_);  // A1
    s.step();
    return true;
  }

  BATON_FN bool output(int tile, o_end& o, int half) {
    if (!o.acquire(x_, attention_site(attention_sites::p_ready(), tile))) return false;  // A3, A6
    for (int stage = 0; stage < Shape::pv_stages; ++stage)
      if (!product({tile, stage, slots_.index(), -1, half})) return false;
    o.commit_mma(x_, work_);  // A5
    o.step();
    return true;
  }

  BATON_FN bool product(const mma_step& step) {
    if (!slots_.consumer_wait(x_, attention_site(attention_sites::slot_filled(), step.tile)))
      return false;  // K1
    work_.issue(x_, step);
    slots_.consumer_release(x_, work_);  // K2
    return true;
  }

  BATON_FN static o_end second_half(const typename Shape::mbars& bars) {
    if constexpr (Shape::output_halves == 2) return bars.producer_o_hi();
    return bars.producer_o_lo();
  }

  X& x_;
  const typename Shape::mbars& bars_;
  Work& work_;
  typename Shape::mbars::kv_pipeline::consumer_end slots_;
  s_end even_ = bars_.producer_s_even();
  s_end odd_ = bars_.producer_s_odd();
  o_end lo_ = bars_.producer_o_lo();
  o_end hi_ = second_half(bars_);
};

template <class Shape, async_exec_context X, class Work>
BATON_FN bool issuer_role(X& x, const typename Shape::mbars& bars, int num_tiles, Work& work) {
  issuer<Shape, X, Work> issue{x, bars, work};
  return for_tiles_in_order<Shape::look_ahead>(
      num_tiles, [&](int tile) { return issue.scores(tile); }, [&](int tile) { return issue.output(tile); });
}

}  // namespace baton
