#pragma once
// What the place we print to can show.
#include <string>
#include <string_view>

namespace baton::cli {

/// How to mark text. Plain (no escape sequences) unless the stream is a terminal; NO_COLOR is honoured.
class style {
 public:
  /// For the file descriptor 1 (stdout) or 2 (stderr).
  static style of_descriptor(int descriptor);
  static style plain() { return style{false}; }

  std::string dim(std::string_view text) const { return wrap("2", text); }
  std::string bold(std::string_view text) const { return wrap("1", text); }
  std::string good(std::string_view text) const { return wrap("32", text); }
  std::string bad(std::string_view text) const { return wrap("31", text); }
  std::string accent(std::string_view text) const { return wrap("36", text); }
  bool is_rich() const { return rich_; }

 private:
  explicit style(bool rich) : rich_{rich} {}
  std::string wrap(std::string_view code, std::string_view text) const;
  bool rich_;
};

/// One line on stderr that is rewritten in place; silent where stderr is not a terminal.
class progress_line {
 public:
  progress_line();
  ~progress_line();
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;
  void show(const std::string& text);
  void clear();

 private:
  bool live_;
  bool shown_ = false;
};

}  // namespace baton::cli
