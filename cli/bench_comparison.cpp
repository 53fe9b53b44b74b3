#include "cli/bench_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "baton/error.hpp"
#include "cli/model/input_file.hpp"
#include "cli/model/json_text.hpp"

namespace baton::cli {
namespace {

using nlohmann::json;

constexpr const char* ep_schema = "baton.bench.ep/2";
constexpr std::size_t most_bytes = std::size_t{256} << 20;
constexpr double deviations_allowed = 3, deviation_of_mad = 1.4826;  // of a normal distribution
constexpr double least_share = 0.01;

/// "ranks 2, layout per_rank, tokens 128, ...": all axes but the seed, in one order.
std::string point_of(const json& axes) {
  std::string text;
  for (const auto& [axis, value] : axes.items()) {
    if (axis == "seed") continue;
    text += (text.empty() ? "" : ", ") + axis + " " +
            (value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text;
}

bool are_samples(const json& samples) {
  const auto is_time = [](const json& v) { return v.is_number() && v.get<double>() >= 0; };
  return samples.is_array() && !samples.empty() && samples[0].is_array() && !samples[0].empty() &&
         std::all_of(samples.begin(), samples.end(), [&](const json& ranks) {
           return ranks.is_array() && ranks.size() == samples[0].size() &&
                  std::all_of(ranks.begin(), ranks.end(), is_time);
         });
}

/// Every object with samples_us under `value`.
void collect(const json& value, const std::string& place, const std::string& where,
             std::map<std::string, ep_timing>& times) {
  if (!value.is_object()) return;
  for (const auto& [key, member] : value.items()) {
    if (key != "samples_us") {
      collect(member, place.empty() ? key : place + "." + key, where, times);
      continue;
    }
    auto& known = times[place].samples_us;
    if (!are_samples(member) || (!known.empty() && known[0].size() != member[0].size()))
      throw bad_file{fmt::format("{}: {}.samples_us: expected numbers [repeat][rank], found {}", where,
                                 model::clipped(place), model::shown(member))};
    for (const json& ranks : member) known.push_back(ranks.get<std::vector<double>>());
  }
}

/// "": the point has no member of this name that is a text.
std::string text_of(const json& point, const char* key) {
  const auto at = point.is_object() ? point.find(key) : point.end();
  return point.is_object() && at != point.end() && at->is_string() ? at->get<std::string>() : "";
}

}  // namespace

measured_points parse_points(const std::string& text, const std::string& label) {
  measured_points points;
  const auto add = [&](const json& point, const std::string& where) {
    if (text_of(point, "schema") != ep_schema)
      throw bad_file{
          fmt::format("{}: expected an object with schema \"{}\", as baton bench ep --json-file writes",
                      where, ep_schema)};
    if (!point.contains("axes") || !point["axes"].is_object())
      throw bad_file{fmt::format("{}: expected an object `axes`", where)};
    if (!point.contains("skipped")) collect(point, "", where, points[point_of(point["axes"])]);
  };
  model::parse_json_lines(text, {.bytes = most_bytes}, label, add);
  if (points.empty()) throw bad_file{fmt::format("{}: no point was measured in it", label)};
  return points;
}

measured_points read_points(const std::filesystem::path& file) {
  return parse_points(model::read_text(file, most_bytes, model::file_kind::any), file.string());
}

bench_comparison compare_points(const measured_points& before, const measured_points& after) {
  bench_comparison all;
  for (const auto& [point, times] : before) {
    const auto other = after.find(point);
    if (other == after.end()) {
      all.only_in_old.push_back(point);
      continue;
    }
    for (const auto& [time, old_timing] : times) {
      const auto found = other->second.find(time);
      if (found == other->second.end()) continue;
      time_change change{.point = point, .time = time};
      change.old_us = old_timing.median_us();
      change.new_us = found->second.median_us();
      const double deviation = deviation_of_mad * std::hypot(old_timing.mad_us(), found->second.mad_us());
      change.spread_us = std::max(deviations_allowed * deviation, least_share * change.old_us);
      all.times.push_back(std::move(change));
    }
  }
  for (const auto& [point, times] : after)
    if (!before.contains(point)) all.only_in_new.push_back(point);
  return all;
}

}  // namespace baton::cli
