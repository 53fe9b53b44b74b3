#pragma once
// The only door into these kernels from the host. No device code, no templates.
#include "baton/padded_rows.hpp"

namespace baton::padded {

/// baton::pad_rows and baton::unpad_rows on either device: one kernel each. Do not synchronise.
/// @throws invalid_argument  what does not hold, by name and value
/// @throws cuda_error        the launch failed
void pad(const world& world, const received_tokens& rows, const padded_rows& out, stream_ref stream);
void unpad(const world& world, const received_tokens& rows, const padded_answers& from, bfloat16* out,
           stream_ref stream);

}  // namespace baton::padded
