#include "cli/commands/help_format.hpp"

#include <utility>

namespace baton::cli {

std::string help_format::make_description(const CLI::App* app) const {
  return app->get_description() + "\n\n";
}

// The base class puts two empty lines between groups.
std::string help_format::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
  for (std::size_t at = 0; (at = text.find("\n\n\n", at)) != std::string::npos;) text.erase(at, 1);
  return text;
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
