#include "cli/view/terminal.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "cli/view/text.hpp"

namespace baton::cli {

style style::of_descriptor(int descriptor) {
  const char* const no_color = std::getenv("NO_COLOR");
  const char* const term = std::getenv("TERM");
  const bool refused =
      (no_color != nullptr && *no_color != '\0') || (term != nullptr && std::string_view{term} == "dumb");
  return style{!refused && isatty(descriptor) == 1};
}

std::string style::wrap(std::string_view code, std::string_view text) const {
  if (!rich_ || text.empty()) return std::string{text};
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

progress_line::progress_line() : live_{style::of_descriptor(2).is_rich()} {}

progress_line::~progress_line() {
  clear();
}

void progress_line::show(const std::string& text) {
  if (!live_) return;
  std::fputs(("\r\x1b[K" + one_line(text, 78)).c_str(), stderr);
  std::fflush(stderr);
  shown_ = true;
}

void progress_line::clear() {
  if (!shown_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace baton::cli
