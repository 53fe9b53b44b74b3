#pragma once
// Kinds of options that several commands have.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "baton/world.hpp"
#include "cli/exchange_settings.hpp"

namespace baton::cli {

/// "{auto,cpu,cuda}" for the type column of --help.
template <class Value>
std::string choices(const std::map<std::string, Value>& names) {
  std::string text;
  for (const auto& [word, value] : names) text += (text.empty() ? "{" : ",") + word;
  return text + "}";
}

/// An option whose value is one word of `names`.
template <class Value>
CLI::Validator one_of(const std::map<std::string, Value>& names) {
  return {[&names](const std::string& word) {
            return names.contains(word) ? "" : "\"" + word + "\" is not one of " + choices(names);
          },
          ""};
}

template <class Value>
CLI::Option* add_choice(CLI::App& command, const std::string& flag, const std::map<std::string, Value>& names,
                        const std::function<void(Value)>& store, const std::string& text) {
  return command
      .add_option_function<std::string>(
          flag, [&names, store](const std::string& word) { store(names.at(word)); }, text)
      ->check(one_of(names))
      ->type_name(choices(names));
}

/// The same for any number of words.
template <class Value>
CLI::Option* add_choices(CLI::App& command, const std::string& flag,
                         const std::map<std::string, Value>& names, std::vector<Value>& chosen,
                         const std::string& text) {
  const auto store = [&names, &chosen](const std::vector<std::string>& words) {
    chosen.clear();
    for (const std::string& word : words) chosen.push_back(names.at(word));
  };
  return command.add_option_function<std::vector<std::string>>(flag, store, text)
      ->check(one_of(names))
      ->type_name(choices(names) + " ...");
}

template <class Path>
CLI::Option* add_path(CLI::App& command, const std::string& flag, Path& path, const std::string& text) {
  return command.add_option_function<std::string>(
      flag, [&path](const std::string& word) { path = word; }, text);
}

/// A number, whose value before is the default that the help names.
template <class Value>
CLI::Option* add_count(CLI::App& command, const std::string& flag, Value& value, const std::string& text) {
  return command.add_option(flag, value, text)->type_name("N")->capture_default_str();
}

/// What is wrong with a number of 64 bits without a sign, or nothing. Its type would take -1 for the largest one.
std::string whole_number_of_64_bits(const std::string& word);
/// --seed, whose value before is the default that the help names.
CLI::Option* add_seed(CLI::App& command, std::uint64_t& seed, const std::string& text);

/// Any number of counts; `usual` is the default that the help names.
inline CLI::Option* add_counts(CLI::App& command, const std::string& flag, std::vector<int>& values,
                               const std::string& usual, const std::string& text) {
  return command.add_option(flag, values, text)->type_name("N ...")->default_str(usual);
}

/// --json: sets both.
void declare_json(CLI::App& command, bool& json, bool& is_json);
void declare_json_file(CLI::App& command, std::string& path);
void declare_device(CLI::App& command, const std::function<void(device_choice)>& store);
/// Empty: CUDA if there is one, else the CPU.
void declare_device_or_none(CLI::App& command, std::optional<device_kind>& chosen);

/// How benchmarks of kernels measure, and whom they tell: --repeats, --sustained-ms, --device, --json, --json-file.
template <class Options>
void declare_measuring(CLI::App& command, Options& options, bool& is_json, const std::string& bursts) {
  add_count(command, "--repeats", options.repeats, bursts)->group("Measuring");
  add_count(command, "--sustained-ms", options.sustained_ms,
            "runs without a pause, after as many that are not timed; 0: none. CUDA only")
      ->group("Measuring");
  declare_device_or_none(command, options.device);
  declare_json(command, options.json, is_json);
  declare_json_file(command, options.json_path);
}

}  // namespace baton::cli
