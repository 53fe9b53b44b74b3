#pragma once
// The compile-time half of pair attention's geometry, and the steps that its Work is asked to do.
#include "protocol/pair_attention/depth512_mbars.hpp"

namespace baton {

template <int num_kv_stages, bool split_o, int look_ahead_tiles = 0, int role_warps = 4,
          int arrivals_per_warp = warp_lanes>
struct pair_attention_shape {
  using mbars = depth512_mbars<num_kv_stages, split_o, role_warps, arrivals_per_warp>;
  static constexpr int look_ahead = look_ahead_tiles;
  static constexpr int kv_stages = num_kv_stages;
  static constexpr int warps_per_role = role_warps;
  static constexpr int arrivals = arrivals_per_warp;
  static constexpr int issuer_warp = 2 * role_warps;
  static constexpr int loader_warp = issuer_warp + 1;
  static constexpr int output_halves = split_o ? 2 : 1;
  static constexpr int qk_stages = split_o ? 4 : 2;  // 128 of the depth each
  static constexpr int pv_stages = 2;                // of the keys, once an output half
  static constexpr int slots_per_tile = qk_stages + output_halves * pv_stages;
  static_assert(look_ahead >= 0 && look_ahead <= 2, "there are two S buffers");
  static_assert(kv_stages >= qk_stages, "the first tile's K is loaded without waiting for a slot");
};

/// One stage of K (half: -1) or of an output half's V.
struct kv_piece {
  int tile;
  int stage;
  int half;
  bool with_q;  // the first tile's K stages bring Q's
};

/// One issue of products: S[buffer] (+)= Q[stage] K[slot], or O[half] (+)= P[stage] V[slot].
struct mma_step {
  int tile;
  int stage;
  int slot;
  int buffer;  // of S
  int half;    // of O; -1: scores
};

/// Calls scores(n) and output(n) for all tiles in the order of loads and products; stops at a false.
template <int look_ahead, class Scores, class Output>
BATON_FN bool for_tiles_in_order(int num_tiles, Scores scores, Output output) {
  for (int step = 0; step < num_tiles + look_ahead; ++step) {
    if (step < num_tiles && !scores(step)) return false;
    if (step >= look_ahead && !output(step - look_ahead)) return false;
  }
  return true;
}

/// Where roles wait.
struct attention_sites {
  static consteval site slot_filled() { return "attention.slot_filled"; }  // issuer, for a K or V slot
  static consteval site slot_free() { return "attention.slot_free"; }      // loader, for a K or V slot
  static consteval site s_ready() { return "attention.s_ready"; }          // softmax, for scores
  static consteval site s_free() { return "attention.s_free"; }            // issuer, for a score buffer
  static consteval site p_ready() {
    return "attention.p_ready";
  }                                                              // issuer, for weights and a rescaled output
  static consteval site p_free() { return "attention.p_free"; }  // softmax, for the weights' place
  static consteval site factor_ready() { return "attention.factor_ready"; }  // correction, for the factors
  static consteval site factor_free() { return "attention.factor_free"; }  // softmax, for the factors' place
  static consteval site o_ready() { return "attention.o_ready"; }          // correction, for an output half
  static consteval site o_final() { return "attention.o_final"; }          // epilogue, for the last output
};

BATON_FN wait_site attention_site(site where, int tile) {
  return {.where = where, .epoch = static_cast<std::uint32_t>(tile)};
}

}  // namespace baton
