#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace baton::cli {

/// How --help looks: the option and its type on the left; on the right what it is, with its default and the
/// environment variable that sets it in brackets.
class help_format : public CLI::Formatter {
 public:
  std::string make_description(const CLI::App* app) const override;
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

}  // namespace baton::cli
