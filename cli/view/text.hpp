#pragma once
// Bytes of a model made safe to print: valid UTF-8 passes, everything else becomes \xNN.
#include <string>
#include <string_view>
#include <vector>

namespace baton::cli {

/// Feeds a terminal or a JSON string from a stream of bytes. A multi-byte character is held back until it is
/// whole. Control characters other than newline and tab are escaped: a model must not drive the terminal.
class utf8_stream {
 public:
  std::string push(std::string_view bytes);
  /// What is still held back, escaped.
  std::string finish();

 private:
  std::string held_;
};

/// The whole text at once.
std::string printable(std::string_view bytes);

/// On one line: newlines and tabs as \n and \t, cut to `max_columns` with an ellipsis.
std::string one_line(std::string_view bytes, std::size_t max_columns);

/// Terminal columns of a printable UTF-8 text, one for each character.
std::size_t columns(std::string_view text);

/// What every output fits into.
inline constexpr std::size_t terminal_columns = 80;

/// Lines of at most `width` columns, broken at spaces where there are any.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

/// A line of which everything past `width` columns goes into more lines, `indent` spaces in.
std::string hanging(std::string_view line, std::size_t indent, std::size_t width = terminal_columns);

/// 12345678 -> "12,345,678"
std::string grouped(unsigned long long value);
/// 12345678 -> "11.8 MiB"
std::string bytes_text(unsigned long long bytes);
/// 0.0123 -> "12.3 ms"
std::string seconds_text(double seconds);

}  // namespace baton::cli
