#pragma once
namespace baton {

/// Of a block on CUDA, all of them 128 rows: paired is 256 columns wide, and two blocks share what they read of b; wide is the
/// same without a partner; medium is 128, narrow 64 wide. Same bits, different speed; `baton bench gemm` measures them.
enum class gemm_tiles { automatic, paired, wide, medium, narrow };

constexpr const char* name(gemm_tiles t) {
  switch (t) {
    case gemm_tiles::paired:
      return "paired";
    case gemm_tiles::wide:
      return "wide";
    case gemm_tiles::medium:
      return "medium";
    case gemm_tiles::narrow:
      return "narrow";
    default:
      return "automatic";
  }
}

struct gemm_config {
  gemm_tiles tiles = gemm_tiles::automatic;  // those that were quickest with as many tiles for as many SMs
  int num_sms = 0;  // blocks at most, but at least one, a pair, or `splits` of them; 0: all of the rank's SMs
  /// Blocks that share out k, and add up in the order of k what each made of a tile: 1, 2, 4 or 8, for products with fewer tiles
  /// than there are SMs; 0: as many as are quickest for m, n, k and the SMs. Each number has roundings of its own: the same bits
  /// each time, and others than another number's. More than 1: `tiles` is automatic or, with e4m3, medium. On the CPU
  /// nothing is shared out.
  int splits = 0;
};

}  // namespace baton
