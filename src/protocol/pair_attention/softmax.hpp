#pragma once
// The consuming half of pair attention: softmax with the epilogue, and correction. See pair_attention.hpp.
//
// Work, as far as these roles ask it:
//   read_scores(x, tile, buffer)   S into registers
//   choose_factor(x, tile)         may use the place of the factors as scratch
//   write_weights(x, tile)         P, made visible to the products
//   write_factor(x, tile)
//   read_factor(x, tile)
//   rescale(x, tile, half)         O of the tile before, times the factor
//   finish(x, num_tiles)           reads O, stages it where Q was and has it stored
#include "protocol/pair_attention/shape.hpp"

namespace baton {

/// The end through which the last product of a tile's output is awaited.
template <class Shape>
BATON_FN auto last_output(const typename Shape::mbars& bars) {
  if constexpr (Shape::output_halves == 2)
    return bars.consumer_o_hi();
  else
    return bars.consumer_o_lo();
}

/// One softmax warp: its pipelines, and one tile at a time.
template <class Shape, async_exec_context X, class Work>
class softmax {
 public:
  BATON_FN softmax(X& x, const typename Shape::mbars& bars, Work& work)
      : x_{x}, bars_{bars}, work_{work}, factor_{bars.producer_c()}, grown_{last_output<Shape>(bars)} {}

  BATON_FN bool tile(int n) {
    if (!(n % 2 == 0 ? scores(n, even_, 0) : scores(n, odd_, 1))) return false;
    if (!factor_.acquire(x_, attention_site(attention_sites::factor_free(), n))) return false;  // A7
    work_.choose_factor(x_, n);
    if constexpr (Shape::look_ahead == 0) {
      publish_weights(n);
      if (n > 0) publish_factor(n);
      return true;
    }
    if (n > 0) publish_factor(n);  // first: correction need not wait for P's place
    if (n > 0 && !weights_are_free(n)) return false;
    publish_weights(n);
    return true;
  }

  BATON_FN bool finish(int num_tiles) {
    if (Shape::look_ahead == 0 && num_tiles % 2 == 0) grown_.step();  // to the parity of the last phase
    if (!grown_.wait(x_, attention_site(attention_sites::o_final(), num_tiles - 1))) return false;  // A5
    work_.finish(x_, num_tiles);
    return true;
  }

 private:
  using s_end = typename Shape::mbars::s_pipeline_consumer;
  using o_end = role_pipeline<1, false>;

  BATON_FN bool scores(int n, s_end& s, int buffer) {
    if (!s.wait(x_, attention_site(attention_sites::s_ready(), n))) return false;  // A1
    work_.read_scores(x_, n, buffer);
    s.release(x_);  // A2
    return true;
  }
  BATON_FN void publish_weights(int n) {
    work_.write_weights(x_, n);
    x_.sync_warp();
    x_.elect([&] { arrive_in_block(x_, bars_.po_lo_mbar(), leader_block, Shape::arrivals); });  // A3
  }
  /// The first tile has nothing to multiply: its acquire is neither committed nor stepped over.
  BATON_FN void publish_factor(int n) {
    work_.write_factor(x_, n);
    factor_.commit(x_);  // A4
  }
  /// Waits for tile n - 1's last O product, which S does not tell with look-ahead (A3).
  BATON_FN bool weights_are_free(int n) {
    if (!grown_.wait(x_, attention_site(attention_sites::p_free(), n))) return false;
    grown_.step();
    return true;
  }

  X& x_;
  const typename Shape::mbars& bars_;
  Work& work_;
  s_end even_ = bars_.consumer_s_even();
  s_end odd_ = bars_.consumer_s_odd();
  role_pipeline<1> factor_;
  o_end grown_;
};

template <class Shape, async_exec_context X, class Work>
BATON_FN bool softmax_role(X& x, const typename Shape::mbars& bars, int num_tiles, Work& work) {
  softmax<Shape, X, Work> role{x, bars, work};
  for (int n = 0; n < num_tiles; ++n)
    if (!role.tile(n)) return false;
  return role.finish(num_tiles);
}

template <class Shape, async_exec_context X, class Work>
BATON_FN bool correction_role(X& x, const typename Shape::mbars& bars, int num_tiles, Work& work) {
  auto factor = bars.consumer_c();
  auto lo = bars.consumer_o_lo();
  auto hi = last_output<Shape>(bars);
  const auto rescale = [&](auto& o, int tile, int half) {
    if (!o.wait(x, attention_site(attention_sites::o_ready(), tile - 1))) return false;  // A5
    work.rescale(x, tile, half);
    o.release(x);  // A6
    return true;
  };
  lo.release_no_step(x);  // A6, tile 0
  if constexpr (Shape::output_halves == 2) hi.release_no_step(x);
  for (int n = 1; n < num_tiles; ++n) {
    if (!factor.wait(x, attention_site(attention_sites::factor_ready(), n))) return false;  // A4
    work.read_factor(x, n);
    if (!rescale(lo, n, 0)) return false;
    if (Shape::output_halves == 2 && !rescale(hi, n, 1)) return false;
    factor.release(x);  // A7
  }
  return true;
}

}  // namespace baton
