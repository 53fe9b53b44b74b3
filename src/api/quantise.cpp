#include "baton/quantise.hpp"

#include "kernels/row_formats/launch.hpp"

namespace baton {

void quantise(const world& world, const bfloat16* in, int columns, const row_selection& rows,
              const formatted_rows& out, stream_ref stream) {
  row_formats::run(world, {row_formats::source::bf16, in, columns, rows, out}, stream);
}

void quantise(const world& world, const float* in, int columns, const row_selection& rows,
              const formatted_rows& out, stream_ref stream) {
  row_formats::run(world, {row_formats::source::fp32, in, columns, rows, out}, stream);
}

void fused_silu(const world& world, const bfloat16* gate_up, int columns, const row_selection& rows,
                const formatted_rows& out, stream_ref stream) {
  row_formats::run(world, {row_formats::source::silu, gate_up, columns, rows, out}, stream);
}

}  // namespace baton
