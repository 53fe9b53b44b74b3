#include "baton/padded_rows.hpp"

#include "kernels/padded_rows/launch.hpp"

namespace baton {

void pad_rows(const world& world, const received_tokens& rows, const padded_rows& out, stream_ref stream) {
  padded::pad(world, rows, out, stream);
}

void unpad_rows(const world& world, const received_tokens& rows, const padded_answers& padded, bfloat16* out,
                stream_ref stream) {
  padded::unpad(world, rows, padded, out, stream);
}

}  // namespace baton
