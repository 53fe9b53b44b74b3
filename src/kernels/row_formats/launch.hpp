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
};

/// baton::quantise or baton::fused_silu on either device: one kernel. Does not synchronise.
/// @throws invalid_argument  what does not hold, by name and value
/// @throws cuda_error        the launch failed
void run(const world& world, const request& asked, stream_ref stream);

}  // namespace baton::row_formats
