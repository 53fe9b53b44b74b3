#pragma once

namespace baton {

/// What becomes of each value v of a product: v; the larger of v and 0; v / (1 + exp(-v));
/// v / 2 (1 + tanh(sqrt(2 / pi) (v + 0.044715 v^3))).
enum class activation { none, relu, silu, gelu };

constexpr const char* name(activation a) {
  switch (a) {
    case activation::relu:
      return "relu";
    case activation::silu:
      return "silu";
    case activation::gelu:
      return "gelu";
    default:
      return "none";
  }
}

/// What an expert makes of a value g of gate and u of up: silu(g) * u; or g / (1 + exp(-1.702 g)) * (u + 1), with g no more than
/// 7 and u from -7 to 7, as gpt-oss has it.
enum class gating { silu, clamped };

constexpr const char* name(gating g) {
  return g == gating::clamped ? "clamped" : "silu";
}

}  // namespace baton
