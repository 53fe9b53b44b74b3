#include "cli/commands/help_format.hpp"

#include <sstream>
#include <utility>

#include "cli/view/text.hpp"

namespace baton::cli {

std::string help_format::make_description(const CLI::App* app) const {
  return app->get_description() + "\n\n";
}

// The base class puts two empty lines between groups, and lets lines be as long as they are.
std::string help_format::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
  for (std::size_t at = 0; (at = text.find("\n\n\n", at)) != std::string::npos;) text.erase(at, 1);
  std::istringstream lines{text};
  std::string fitting;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find_first_not_of(' ');
    const std::size_t column = get_column_width();
    const bool is_table =
        first == 2 && line.size() > column && line[column - 1] == ' ' && line[column] != ' ';
    fitting += hanging(line, is_table ? column : first == line.npos ? 0 : first) + '\n';
  }
  return fitting;
}

std::string help_format::make_option_opts(const CLI::Option* option) const {
  const bool has_value = option->get_type_size() != 0;
  return has_value && !option->get_type_name().empty() ? " " + option->get_type_name() : "";
}

std::string help_format::make_option_desc(const CLI::Option* option) const {
  std::string text = option->get_description();
  if (option->get_required()) text += " (required)";
  if (!option->get_default_str().empty()) text += " [" + option->get_default_str() + "]";
  if (!option->get_envname().empty()) text += " [env " + option->get_envname() + "]";
  return text;
}

}  // namespace baton::cli
