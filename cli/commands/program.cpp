#include "cli/commands/program.hpp"

#include <cstdlib>
#include <string_view>

#include "baton/error.hpp"
#include "cli/commands/arguments.hpp"
#include "cli/commands/failure.hpp"
#include "cli/commands/usage.hpp"
#include "cli/view/text.hpp"

namespace baton::cli {
namespace {

/// Whether JSON was asked for, when parsing did not get as far as to say so.
bool asks_for_json(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view{argv[i]} == "--json") return true;
  }
  return false;
}

/// The command to point to: "baton generate --help".
std::string help_command(const CLI::App& app) {
  std::string text;
  for (const CLI::App* at = &chosen_command(app); at != nullptr; at = at->get_parent())
    text = at->get_name() + " " + text;
  return text + "--help";
}

/// From version 2.4 on CLI11 passes over a value of the environment that is not valid.
void require_valid_environment(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const char* value = option->get_envname().empty() ? nullptr : std::getenv(option->get_envname().c_str());
    if (value == nullptr || *value == '\0' || option->count() > 0) continue;
    throw CLI::ValidationError{option->get_envname(),
                               "\"" + std::string{value} + "\" is not a value of " + option->get_name()};
  }
  for (const CLI::App* command : app.get_subcommands()) require_valid_environment(*command);
}

/// A text that nobody got is not a success.
int flushed(int code, std::ostream& out) {
  out.flush();
  if (!out) throw bad_file{"standard output: cannot be written; is it closed, or the disk full?"};
  return code;
}

int parse_and_run(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  CLI::App app;
  app.name("baton");
  arguments chosen;
  declare(app, chosen);
  try {
    app.parse(argc, argv);
    require_valid_environment(app);
  } catch (const CLI::Success& e) {
    return flushed(app.exit(e, out, err), out);  // --help and --version
  } catch (const CLI::ParseError& e) {
    if (argc == 1) {
      err << app.help();
      return static_cast<int>(exit_code::bad_input);
    }
    const failure usage{exit_code::bad_input, "usage",
                        one_line(usage_problem(app, e), 1000) + "; see " + help_command(app)};
    return report_failure(usage, asks_for_json(argc, argv), out, err);
  }
  return flushed(chosen.command(out), out);
}

}  // namespace

int run_program(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  try {
    return parse_and_run(argc, argv, out, err);
  } catch (...) {
    return report_failure(describe_failure(std::current_exception()), asks_for_json(argc, argv), out, err);
  }
}

}  // namespace baton::cli
