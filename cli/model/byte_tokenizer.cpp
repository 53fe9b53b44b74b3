#include "cli/model/byte_tokenizer.hpp"

#include <fmt/format.h>

namespace baton::model {

void require_byte_vocabulary(const model_config& config) {
  if (config.vocab_size == 256) return;
  throw unsupported{
      fmt::format("vocab_size: baton turns text into tokens for models whose vocabulary is the 256 byte "
                  "values, found {}. This "
                  "model needs its own tokenizer (tokenizer.json), which baton does not read; `baton moe` "
                  "runs its layers without "
                  "text",
                  config.vocab_size)};
}

std::vector<std::int32_t> encode_bytes(std::string_view text) {
  std::vector<std::int32_t> ids;
  ids.reserve(text.size());
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

std::string decode_bytes(std::span<const std::int32_t> ids) {
  std::string text;
  text.reserve(ids.size());
  for (const std::int32_t id : ids) text.push_back(static_cast<char>(id));
  return text;
}

}  // namespace baton::model
