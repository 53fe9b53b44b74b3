#pragma once
#include <cstdint>

#include "baton/expert_parallel.hpp"
#include "baton/numeric.hpp"
#include "baton/token_format.hpp"
#include "baton/world.hpp"

namespace baton {

/// Which rows, and on how many SMs: all of them, or ranges that are read on the device when the work runs. Ranges do not overlap;
/// what of one lies outside of `max_rows` is left out.
struct row_selection {
  int max_rows = 0;                      // rows that there is memory for
  const std::int32_t* counts = nullptr;  // [num_ranges]: rows of each range, device memory; null: all rows
  const std::int32_t* firsts = nullptr;  // [num_ranges]: its first row; null: 0, of a single range
  int num_ranges = 0;                    // up to 1024
  int num_sms = 0;                       // that work on them; 0: all of the rank's
};

/// The rows that a dispatch left for this rank's experts.
inline row_selection rows_of(const received_tokens& rows) {
  return {rows.max_rows, rows.row_counts, rows.row_offsets, rows.num_local_experts};
}

/// Where rows go, and as what. Device memory.
struct formatted_rows {
  token_format format = token_format::bf16;
  void* values =
      nullptr;  // [max_rows, columns], 16-byte aligned: rows of facts_of(format).row_bytes(columns) bytes
  void* scales =
      nullptr;  // scale_places{layout, max_rows, facts_of(format).row_scales(columns)}.count() scales; unused with bf16
  scale_layout layout = scale_layout::row_major;
  const float* tensor_scale = nullptr;  // of nvfp4: one float; null: 1
};

/// Rows in a format with fewer bits: `out[r, i] = encode(in[r, i])` by the rules of token_format.
///
/// | argument  | shape               | type         | layout, alignment                                                    |
/// |-----------|---------------------|--------------|----------------------------------------------------------------------|
/// | `in`      | [max_rows, columns] | bf16 or fp32 | contiguous, 16-byte aligned                                          |
/// | `columns` |                     |              | positive, a multiple of facts_of(out.format).multiple                |
/// | `rows`    |                     |              | see row_selection                                                    |
/// | `out`     |                     |              | see formatted_rows; not `in`; what no row of a range has is untouched |
///
/// Rounding: as token_format says; the same bits on every device but for the sign of a NaN. Deterministic. Order: on `stream`;
/// capturable; no host synchronisation, no allocation.
///
/// Cost: reads and writes each row once. The padding of tiled_128x4 stays as it is.
/// @throws invalid_argument  a shape, alignment or choice above does not hold, or tiled_128x4 with scales of more than a byte;
///                           nothing is enqueued
/// @throws cuda_error        the launch failed
void quantise(const world& world, const bfloat16* in, int columns, const row_selection& rows,
              const formatted_rows& out, stream_ref stream = {});
void quantise(const world& world, const float* in, int columns, const row_selection& rows,
              const formatted_rows& out, stream_ref stream = {});

/// The activation between an expert's two products, in any format:
/// `out[r, i] = encode(silu(gate_up[r, i]) * gate_up[r, columns + i])` with silu(v) = v / (1 + exp(-v)).
///
/// | argument  | shape                   | type | layout, alignment                                                      |
/// |-----------|-------------------------|------|------------------------------------------------------------------------|
/// | `gate_up` | [max_rows, 2 * columns] | bf16 | contiguous, 16-byte aligned: of each row the gate, then up             |
///
/// and the rest as of quantise.
///
/// Rounding: silu and the product in fp32 (exp within 2 units in the last place, three roundings), then as token_format says, not
/// by way of bf16. exp is the device's: the CPU's bits may differ from a GPU's. Deterministic on each. Order, errors: as of
/// quantise.
///
/// Cost: reads 4 bytes a value, writes facts_of(out.format).value_bits / 8 and the scales.
void fused_silu(const world& world, const bfloat16* gate_up, int columns, const row_selection& rows,
                const formatted_rows& out, stream_ref stream = {});

}  // namespace baton
