#include "cli/commands/argument_kinds.hpp"

#include <charconv>
#include <limits>
#include <system_error>

namespace baton::cli {
namespace {

const std::map<std::string, device_choice> device_names{
    {"auto", device_choice::automatic}, {"cpu", device_choice::cpu}, {"cuda", device_choice::cuda}};

}  // namespace

std::string whole_number_of_64_bits(const std::string& word) {
  std::uint64_t number = 0;
  const char* const end = word.data() + word.size();
  const auto [stopped, problem] = std::from_chars(word.data(), end, number);
  const bool is_number = problem == std::errc{} && stopped == end;
  const bool is_octal = is_number && word.size() > 1 && word.front() == '0';  // to CLI11
  if (is_number && !is_octal) return {};
  return "'" + word + "' is not a whole number from 0 to " +
         std::to_string(std::numeric_limits<std::uint64_t>::max()) +
         (is_octal ? " without zeros in front" : "");
}

CLI::Option* add_seed(CLI::App& command, std::uint64_t& seed, const std::string& text) {
  return add_count(command, "--seed", seed, text)->check(CLI::Validator{whole_number_of_64_bits, ""});
}

void declare_json(CLI::App& command, bool& json, bool& is_json) {
  command
      .add_flag_callback(
          "--json", [&json, &is_json] { json = is_json = true; },
          "JSON on stdout; progress and errors stay on stderr")
      ->group("Output");
}

void declare_device(CLI::App& command, const std::function<void(device_choice)>& store) {
  add_choice<device_choice>(command, "--device", device_names, store,
                            "where the experts run; auto: CUDA if it can")
      ->envname("BATON_DEVICE")
      ->default_str("auto")
      ->group("Exchange");
}

void declare_device_or_none(CLI::App& command, std::optional<device_kind>& chosen) {
  declare_device(command, [&chosen](device_choice device) {
    chosen.reset();
    if (device != device_choice::automatic)
      chosen = device == device_choice::cuda ? device_kind::cuda : device_kind::cpu;
  });
}

void declare_json_file(CLI::App& command, std::string& path) {
  command.add_option("--json-file", path, "gets the JSON as well, when all is measured")
      ->type_name("FILE")
      ->group("Output");
}

}  // namespace baton::cli
