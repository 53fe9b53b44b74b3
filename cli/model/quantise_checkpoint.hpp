#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>

#include "cli/model/checkpoint.hpp"

namespace baton::model {

/// What quantise_checkpoint wrote.
struct quantised_checkpoint {
  int files = 0;                                    // safetensors
  int tensors = 0;                                  // in them, without scales
  int matrices = 0;                                 // of the tensors: now in FP8
  std::uint64_t bytes_before = 0, bytes_after = 0;  // of all tensors
};

/// Bytes of tensors that have been read, and of all.
using quantise_progress = std::function<void(std::uint64_t done, std::uint64_t all)>;

/// Writes the checkpoint with its experts in FP8, in the layout of Hugging Face's DeepSeek-V3: gate_proj, up_proj and down_proj
/// of every expert as e4m3 [n, k], and for each NAME.weight an f32 NAME.weight_scale_inv [ceil(n / 128), ceil(k / 128)]: the
/// scale of each 128x128 block, its largest magnitude over 448, at least 2^-126. A weight is value * scale; values are rounded to
/// nearest, ties to even. All other tensors stay as they are, bit for bit. config.json gets a quantization_config that names
/// them as modules_to_not_convert; shards keep their names, and an index its place. Nothing else of the folder is copied.
///
/// `to` is made if there is nothing. Files appear in it when all are written, config.json last: what is interrupted is no
/// checkpoint. A strip of 128 rows of a matrix is in memory at a time, at most 40 MiB.
/// @throws bad_file  a weight that is not finite (where); or `to` is not a folder, a link, not empty, or cannot be written
/// @throws invalid_argument  `to` is the checkpoint's own folder, or its weights are in FP8 already
quantised_checkpoint quantise_checkpoint(const checkpoint& from, const std::filesystem::path& to,
                                         const quantise_progress& report = {});

}  // namespace baton::model
