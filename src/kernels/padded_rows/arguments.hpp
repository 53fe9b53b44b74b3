#pragma once
// What is asked of the arguments, checked on the host before anything is enqueued.
#include "baton/padded_rows.hpp"

namespace baton::padded {

/// Of pad_rows, and of unpad_rows.
/// @throws invalid_argument  the first thing that is wrong, by name and value
void require(const received_tokens& rows, const padded_rows& out);
void require_way_back(const received_tokens& rows, const padded_answers& from, const bfloat16* out);

}  // namespace baton::padded
