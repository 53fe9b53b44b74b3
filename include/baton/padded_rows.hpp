#pragma once
#include <cstdint>

#include "baton/numeric.hpp"
#include "baton/received_tokens.hpp"
#include "baton/world.hpp"

namespace baton {

/// Memory with `capacity` rows for each expert, whether they come or not: what kernels of experts take that find an expert's rows
/// by its number alone. Row w of expert e has place e * capacity + w. Device memory; what is null is left out.
struct padded_rows {
  int capacity = 0;        // rows of an expert that come after these are left out
  void* tokens = nullptr;  // [experts, capacity, hidden] in the dispatch's format, 16-byte aligned
  /// [experts, blocks, capacity]: the scales of an expert's rows next to each other, fp32; with scales_as_exponents int32 of the
  /// exponents of four blocks of a row, the first in the lowest byte, for scales that are powers of two: [experts, blocks / 4,
  /// capacity]. With blockwise_fp8 only.
  void* scales = nullptr;
  bool scales_as_exponents = false;
  std::int32_t* row_counts = nullptr;     // [experts]: rows that are there, of capacity
  std::int32_t* source_tokens = nullptr;  // [experts, capacity]: the row's token's index on the source rank
  std::int64_t* source_ranges =
      nullptr;      // [experts, ranks]: a rank's first row of the expert's << 32 | how many
  int num_sms = 0;  // that work on it; 0: all of the rank's
};

/// What experts made, at the same places. Device memory.
struct padded_answers {
  const bfloat16* values = nullptr;  // [experts, capacity, hidden]
  int capacity = 0;
  int num_sms = 0;  // that work on it; 0: all of the rank's
};

/// What a dispatch left, in memory for as many rows of each expert as may come:
/// `out.tokens[e, w] = rows.tokens[rows.row_offsets[e] + w]` for w < min(rows.row_counts[e], capacity), and the rest of `out`
/// alike. Places of no row are untouched.
///
/// `rows`: in bf16 or blockwise_fp8, each row with a token of its own (ep_rows::by_expert), of at most 1024 experts.
///
/// Deterministic. Order: on `stream`; capturable; no host synchronisation, no allocation. Cost: reads and writes each row once.
/// @throws invalid_argument  a shape, alignment or choice above does not hold, by name and value; nothing is enqueued
/// @throws cuda_error        the launch failed
void pad_rows(const world& world, const received_tokens& rows, const padded_rows& out,
              stream_ref stream = {});

/// The way back, for what experts made of them: `out[rows.row_offsets[e] + w] = padded[e, w]`, what combine takes.
///
/// | argument        | shape                       | layout, alignment                                                       |
/// |-----------------|-----------------------------|-------------------------------------------------------------------------|
/// | `padded.values` | [experts, capacity, hidden] | contiguous, 16-byte aligned                                             |
/// | `out`           | [rows.max_rows, hidden]     | the same; not `padded.values`; rows without a place are untouched       |
///
/// `rows`, order, cost, errors: as of pad_rows; any format.
void unpad_rows(const world& world, const received_tokens& rows, const padded_answers& padded, bfloat16* out,
                stream_ref stream = {});

}  // namespace baton
