#pragma once
// The only door into this kernel from the host. No device code, no templates.
#include "baton/quantise.hpp"

namespace baton::row_formats {

enum class source { bf16, fp32, silu };

struct request {
  source from = source::bf16;
  const void* in = nullptr;
  int columns = 0;
  row_selection rows;
  formatted_rows out;
  const received_tokens* stored = nullptr;  // rows that a dispatch left, instead of `from`
};

/// The rows of experts as `out` says, bf16 or blockwise_fp8, but not as what they are; the last block may be shorter. All of it
/// was checked. Does not synchronise.
/// @throws cuda_error  the launch failed
void restore(const world& world, const received_tokens& rows, const formatted_rows& out, stream_ref stream,
             int num_sms = 0);

/// baton::quantise or baton::fused_silu on either device: one kernel. Does not synchronise.
/// @throws invalid_argument  what does not hold, by name and value
/// @throws cuda_error        the launch failed
void run(const world& world, const request& asked, stream_ref stream);

}  // namespace baton::row_formats
