#include "cli/view/text.hpp"

#include <fmt/format.h>

#include <cstdint>

namespace baton::cli {
namespace {

std::string escaped(unsigned char byte) {
  return fmt::format("\\x{:02x}", byte);
}

/// Bytes in the character that starts with `lead`; 0 if no character starts so.
std::size_t character_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  if (lead >= 0xf0 && lead <= 0xf4) return 4;
  return 0;
}

/// Whether `second` may follow `lead`: rules out overlong forms, surrogates and values past U+10FFFF.
bool second_byte_fits(unsigned char lead, unsigned char second) {
  if (lead == 0xe0) return second >= 0xa0 && second <= 0xbf;
  if (lead == 0xed) return second >= 0x80 && second <= 0x9f;
  if (lead == 0xf0) return second >= 0x90 && second <= 0xbf;
  if (lead == 0xf4) return second >= 0x80 && second <= 0x8f;
  return second >= 0x80 && second <= 0xbf;
}

enum class piece { whole, unfinished, broken };

piece look_at(std::string_view bytes, std::size_t& length) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  length = character_length(at(0));
  if (length == 0) return piece::broken;
  for (std::size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return piece::unfinished;
    const bool fits = i == 1 ? second_byte_fits(at(0), at(1)) : (at(i) & 0xc0u) == 0x80u;
    if (!fits) return piece::broken;
  }
  return piece::whole;
}

/// C0 and DEL, and C1 in its two-byte form.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f;
  return character.size() == 2 && first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
}

}  // namespace

std::string utf8_stream::push(std::string_view bytes) {
  held_ += bytes;
  std::string out;
  std::string_view rest = held_;
  while (!rest.empty()) {
    std::size_t length = 0;
    const piece what = look_at(rest, length);
    if (what == piece::unfinished) break;
    if (what == piece::broken) length = 1;
    const std::string_view character = rest.substr(0, length);
    if (what == piece::whole && !is_control(character)) {
      out += character;
    } else {
      for (const char c : character) out += escaped(static_cast<unsigned char>(c));
    }
    rest.remove_prefix(length);
  }
  held_ = std::string{rest};
  return out;
}

std::string utf8_stream::finish() {
  std::string out;
  for (const char c : held_) out += escaped(static_cast<unsigned char>(c));
  held_.clear();
  return out;
}

std::string printable(std::string_view bytes) {
  utf8_stream stream;
  std::string out = stream.push(bytes);
  return out + stream.finish();
}

std::size_t columns(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xc0u) != 0x80u;
  return count;
}

std::string one_line(std::string_view bytes, std::size_t max_columns) {
  std::string flat;
  for (const char c : printable(bytes)) {
    if (c == '\n') {
      flat += "\\n";
    } else if (c == '\t') {
      flat += "\\t";
    } else {
      flat += c;
    }
  }
  if (columns(flat) <= max_columns) return flat;
  std::size_t end = 0;
  for (std::size_t seen = 0; end < flat.size(); ++end) {
    const bool starts = (static_cast<unsigned char>(flat[end]) & 0xc0u) != 0x80u;
    if (starts && ++seen == max_columns) break;
  }
  return flat.substr(0, end) + "…";
}

namespace {

/// Bytes of the first `count` columns of `text`.
std::size_t bytes_of_columns(std::string_view text, std::size_t count) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    const bool starts = (static_cast<unsigned char>(text[at]) & 0xc0u) != 0x80u;
    if (starts && count-- == 0) break;
  }
  return at;
}

}  // namespace

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  while (columns(text) > width) {
    const std::size_t most = bytes_of_columns(text, width);
    const std::size_t space = text.substr(0, most + 1).rfind(' ');
    const bool has_space = space != text.npos && space != 0;
    lines.emplace_back(text.substr(0, has_space ? space : most));
    text.remove_prefix(has_space ? space + 1 : most);
  }
  lines.emplace_back(text);
  return lines;
}

std::string hanging(std::string_view line, std::size_t indent, std::size_t width) {
  if (columns(line) <= width) return std::string{line};
  const std::size_t most = bytes_of_columns(line, width);
  const std::size_t space = line.substr(0, most + 1).rfind(' ');
  const bool has_space = space != line.npos && space > indent;
  std::string text{line.substr(0, has_space ? space : most)};
  for (const std::string& rest : wrapped(line.substr(has_space ? space + 1 : most), width - indent))
    text += "\n" + std::string(indent, ' ') + rest;
  return text;
}

std::string grouped(unsigned long long value) {
  const std::string digits = fmt::format("{}", value);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string bytes_text(unsigned long long bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (value /= 1024; value >= 1000 && unit < 3; ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, units[unit]);
}

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} µs", seconds * 1e6);
  if (seconds < 1)
    return fmt::format("{:.{}f} ms", seconds * 1e3, seconds < 0.01 ? 2 : seconds < 0.1 ? 1 : 0);
  if (seconds < 100) return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 2 : 1);
  return fmt::format("{:.0f} s", seconds);
}

}  // namespace baton::cli
