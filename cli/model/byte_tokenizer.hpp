#pragma once
// Text to token ids and back for models whose vocabulary is the 256 byte values.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/model/checkpoint.hpp"

namespace baton::model {

/// @throws unsupported  the model's vocabulary is not the 256 byte values; says what would be needed
void require_byte_vocabulary(const model_config& config);

std::vector<std::int32_t> encode_bytes(std::string_view text);
std::string decode_bytes(std::span<const std::int32_t> ids);

}  // namespace baton::model
