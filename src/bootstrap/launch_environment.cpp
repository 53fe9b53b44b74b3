#include "bootstrap/launch_environment.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string_view>
#include <system_error>

#include "baton/error.hpp"
#include "bootstrap/group.hpp"

namespace baton::bootstrap {
namespace {

constexpr std::size_t longest_run_id = 48;  // longer ones are hashed: socket names are short

std::optional<std::string> text_of(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

long long number_of(const char* name, std::string_view text, long long low, long long high) {
  long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < low || value > high)
    throw invalid_argument{
        fmt::format("environment variable {}='{}', expected a number from {} to {}", name, text, low, high)};
  return value;
}

int required(const char* name, int low, int high) {
  const auto text = text_of(name);
  if (!text)
    throw invalid_argument{fmt::format(
        "environment variable {} is not set; start the ranks with torchrun, or set RANK, WORLD_SIZE, "
        "LOCAL_RANK and MASTER_PORT for each process",
        name)};
  return static_cast<int>(number_of(name, *text, low, high));
}

int optional_or(const char* name, int otherwise, int high) {
  const auto text = text_of(name);
  return text ? static_cast<int>(number_of(name, *text, 0, high)) : otherwise;
}

}  // namespace

launch_environment read_launch_environment() {
  launch_environment env;
  rendezvous_config& m = env.ranks;
  m.size = required("WORLD_SIZE", 1, most_ranks);
  m.rank = required("RANK", 0, m.size - 1);
  env.local_rank = optional_or("LOCAL_RANK", m.rank, most_ranks);
  if (const int here = optional_or("LOCAL_WORLD_SIZE", m.size, most_ranks); here != m.size)
    throw unsupported{fmt::format(
        "LOCAL_WORLD_SIZE={} of WORLD_SIZE={}: the ranks are spread over several machines, and these "
        "variables bring together those of one; in Python use World.from_torch or World.from_mpi, in C++ "
        "give "
        "world::create an all_gather of your own, as MPI_Allgather, or start all ranks on one",
        here, m.size)};
  const int port = m.size == 1 ? optional_or("MASTER_PORT", 0, 65535) : required("MASTER_PORT", 1, 65535);
  std::string run = text_of("TORCHELASTIC_RUN_ID").value_or("none");
  if (run.size() > longest_run_id) run = fmt::format("{:016x}", std::hash<std::string>{}(run));
  m.name = fmt::format("baton-{}-{}-{}", ::geteuid(), port, run);
  m.deadline = deadline_from_environment(m.deadline);
  return env;
}

std::chrono::milliseconds deadline_from_environment(std::chrono::milliseconds otherwise) {
  constexpr const char* name = "BATON_DEADLINE_MS";
  constexpr long long week = 7LL * 24 * 3600 * 1000;
  const auto text = text_of(name);
  return text ? std::chrono::milliseconds{number_of(name, *text, 0, week)} : otherwise;
}

}  // namespace baton::bootstrap
