#include "cli/commands/forecast_measured.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <optional>

#include "cli/bench/statistics.hpp"
#include "cli/commands/exchange_arguments.hpp"
#include "cli/commands/forecast_report.hpp"
#include "cli/config_words.hpp"
#include "cli/model/input_file.hpp"
#include "cli/model/json_text.hpp"

namespace baton::cli {
namespace {

using nlohmann::json;

constexpr std::size_t most_bytes_of_rounds = std::size_t{256} << 20;

/// One object of a file, whose members are asked for by name.
class fields {
 public:
  fields(const json& object, std::string where) : object_{object}, where_{std::move(where)} {
    if (!object_.is_object()) throw bad_file{fmt::format("{}: expected an object", where_)};
  }

  int number(const char* name, int otherwise) const {
    const json* value = find(name);
    if (value == nullptr) return otherwise;
    constexpr int most = 1 << 24;
    if (!value->is_number_integer() || value->get<double>() < 0 || value->get<double>() > most)
      throw bad_file{fmt::format("{}: {}: expected a number from 0 to {}, found {}", where_, name, most,
                                 model::shown(*value))};
    return value->get<int>();
  }
  std::string text(const char* name, const char* otherwise) const {
    const json* value = find(name);
    if (value == nullptr) return otherwise;
    if (!value->is_string())
      throw bad_file{fmt::format("{}: {}: expected a text, found {}", where_, name, model::shown(*value))};
    return value->get<std::string>();
  }
  template <class Value>
  Value one_of(const char* name, const std::map<std::string, Value>& names, const char* otherwise) const {
    const std::string word = text(name, otherwise);
    const auto found = names.find(word);
    if (found == names.end())
      throw bad_file{
          fmt::format("{}: {}: {} is not one of {}", where_, name, model::shown(word), choices(names))};
    return found->second;
  }
  /// Microseconds: the first of these members, each a way of names, that is there.
  double time(std::initializer_list<json::json_pointer> places) const {
    for (const json::json_pointer& place : places)
      if (object_.contains(place) && object_[place].is_number() && object_[place].get<double>() > 0)
        return object_[place].get<double>();
    throw bad_file{fmt::format("{}: expected a time above 0 at {}", where_, places.begin()->to_string())};
  }
  bool is_true(const char* name) const {
    const json* value = find(name);
    return value != nullptr && value->is_boolean() && value->get<bool>();
  }
  const json* find(const char* name) const {
    const auto at = object_.find(name);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }
  const std::string& where() const { return where_; }

 private:
  const json& object_;
  std::string where_;
};

const std::map<std::string, ep_rows> rows_of_axes{{"by_expert", ep_rows::by_expert},
                                                  {"by_token", ep_rows::by_token}};

void fill_sizes(const fields& from, forecast_case& c) {
  c.asked.ranks = from.number("ranks", 0);
  c.asked.config.num_experts = from.number("experts", 0);
  c.asked.config.top_k = from.number("top_k", 0);
  c.asked.config.hidden = from.number("hidden", 0);
  c.asked.config.num_max_tokens_per_rank = from.number("tokens", 0);
}

/// What reaches ranks is no fault of the file.
void require_in_file(const forecast_case& c, const std::string& where) {
  forecast::question of_file = c.asked;
  of_file.links = {};
  if (const std::string reason = why_not(of_file); !reason.empty())
    throw bad_file{fmt::format("{}: {}", where, reason)};
  require_none(why_not(c.asked), forecast_words);
}

/// Nothing, if the model knows no such rounds.
std::optional<measured_round> round_of_ep(const fields& point, const forecast::link_facts& links) {
  const json* axes_json = point.find("axes");
  if (axes_json == nullptr) throw bad_file{fmt::format("{}: expected an object `axes`", point.where())};
  const fields axes{*axes_json, point.where() + ": axes"};
  if (!point.is_true("checked") || axes.number("num_sms", 0) > 0 || axes.number("replicas", 0) > 0 ||
      axes.text("device", "cuda") != "cuda" || axes.text("routing", "uniform") == "trace")
    return std::nullopt;
  measured_round r;
  fill_sizes(axes, r.of);
  ep_config& c = r.of.asked.config;
  c.layout = axes.one_of("layout", layout_names, "per_expert");
  c.transfer = axes.one_of("transfer", transfer_names, "lines");
  c.format = axes.one_of("format", format_names, "bf16");
  c.combine_format = axes.one_of("combine_format", format_names, "bf16");
  c.rows = axes.one_of("rows", rows_of_axes, "by_expert");
  r.of.routing = axes.one_of("routing", routing_names, "uniform");
  r.of.asked.links = links;
  using at = json::json_pointer;
  r.us = point.time({at{"/fused/round_trip_graph/median_us"}, at{"/split/round_trip_graph/median_us"},
                     at{"/round_trip_graph/median_us"}, at{"/fused/round_trip/median_us"},
                     at{"/split/round_trip/median_us"}, at{"/round_trip/median_us"}});
  require_in_file(r.of, point.where());
  return r;
}

/// Of each group size a round; of a point that was not right, which ends at the first that was not, none.
std::vector<measured_round> rounds_of_groups(const fields& point, const forecast::link_facts& links) {
  std::vector<measured_round> all;
  const json* groups = point.find("groups");
  if (groups == nullptr || !groups->is_array())
    throw bad_file{fmt::format("{}: expected an array `groups`", point.where())};
  if (!point.is_true("checked") || !point.is_true("same_bits") || point.text("device", "cuda") != "cuda")
    return all;
  for (const json& group : *groups) {
    const fields of_size{group, point.where() + ": groups"};
    measured_round r;
    fill_sizes(point, r.of);
    r.of.asked.config.layout = point.one_of("layout", layout_names, "per_expert");
    r.of.asked.config.transfer = of_size.one_of("transfer", transfer_names, "auto");
    r.of.asked.config.p2p_group_size = of_size.number("p2p_group_size", 0);
    r.of.asked.config.levels = of_size.one_of("levels", level_names, "one");
    r.of.asked.links = links;
    r.us = of_size.time({json::json_pointer{"/round_median_us"}});
    require_in_file(r.of, of_size.where());
    all.push_back(r);
  }
  return all;
}

void add_line(const json& line, const std::string& where, const forecast::link_facts& links,
              measured_rounds& to) {
  const fields point{line, where};
  const std::string schema = point.text("schema", "none");
  const std::size_t before = to.all.size();
  if (schema == "baton.bench.groups/1") {
    for (const measured_round& r : rounds_of_groups(point, links)) to.all.push_back(r);
  } else if (schema == "baton.bench.ep/1" || schema == "baton.bench.ep/2") {
    if (point.find("skipped") != nullptr) return;
    if (const auto r = round_of_ep(point, links)) to.all.push_back(*r);
  } else {
    throw bad_file{fmt::format(
        "{}: schema {}: expected baton.bench.ep/1, baton.bench.ep/2 or baton.bench.groups/1, as baton "
        "bench ep and baton bench groups write with --json-file",
        where, model::shown(schema))};
  }
  if (to.all.size() == before) ++to.left_out;
}

void print_row(const measured_round& r, const forecast::round_forecast& f, std::ostream& out) {
  const forecast::question& q = r.of.asked;
  const std::string transfer = transfer_of(q);
  out << fmt::format("{:>6}{:>7}{:>8}{:>8}  {:<17}{:<6}{:>9.1f}{:>9.1f}{:>6.0f} %\n", q.ranks, q.group_size(),
                     q.tokens(), name(q.config.levels),
                     transfer.empty() ? "per_expert" : "per_rank, " + transfer, name(q.config.format), r.us,
                     f.round_us(), 100 * (f.round_us() / r.us - 1));
}

}  // namespace

measured_rounds parse_measured_rounds(const std::string& text, const std::string& label,
                                      const forecast::link_facts& links) {
  measured_rounds measured;
  model::parse_json_lines(
      text, {.bytes = most_bytes_of_rounds}, label,
      [&](const json& line, const std::string& where) { add_line(line, where, links, measured); });
  if (measured.all.empty())
    throw bad_file{
        fmt::format("{}: no round in it that can be compared: on GPUs, on all SMs, without replicas or a "
                    "recording, and right; {} points were left out",
                    label, measured.left_out)};
  return measured;
}

measured_rounds read_measured_rounds(const std::filesystem::path& file, const forecast::link_facts& links) {
  return parse_measured_rounds(model::read_text(file, most_bytes_of_rounds, model::file_kind::any),
                               file.string(), links);
}

forecast_errors compare_with_forecasts(const measured_rounds& measured, bench_report& to) {
  std::vector<double> errors;
  to.table([](std::ostream& out) {
    out << "Rounds as measured, and as forecast: us of the slowest rank.\n\n"
        << fmt::format("{:>6}{:>7}{:>8}{:>8}  {:<17}{:<6}{:>9}{:>9}{:>8}\n", "ranks", "group", "tokens",
                       "levels", "layout", "format", "measured", "forecast", "off by");
  });
  for (const measured_round& r : measured.all) {
    const forecast::round_forecast f = forecast_of(r.of);
    errors.push_back(100 * std::abs(f.round_us() / r.us - 1));
    json line = to_json(r.of, f);
    line["schema"] = "baton.forecast.measured/1";
    line["measured_round_us"] = r.us;
    to.add(line);
    to.table([&](std::ostream& out) { print_row(r, f, out); });
  }
  const forecast_errors all{median_of(errors), *std::max_element(errors.begin(), errors.end())};
  to.table([&](std::ostream& out) {
    out << fmt::format("\n{} rounds: off by {:.0f} % in the median, {:.0f} % at most", measured.all.size(),
                       all.median_percent, all.worst_percent)
        << (measured.left_out > 0 ? fmt::format("; {} points left out\n", measured.left_out) : "\n");
  });
  return all;
}

}  // namespace baton::cli
