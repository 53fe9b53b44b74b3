#include "cli/commands/forecast.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/commands/bench_report.hpp"
#include "cli/commands/forecast_measured.hpp"
#include "cli/commands/forecast_report.hpp"
#include "cli/config_words.hpp"
#include "cli/exit_code.hpp"
#include "cli/view/terminal.hpp"

namespace baton::cli {
namespace {

constexpr int experts_of_few = 256;

/// What is alike in all points of a table.
forecast_case like_all(const forecast_options& o, ep_layout layout, int hidden, ep_routing routing) {
  forecast_case c;
  c.routing = routing;
  c.seed = o.seed;
  c.asked.config.layout = layout;
  c.asked.config.hidden = hidden;
  c.asked.config.top_k = o.top_k;
  c.asked.config.format = o.format;
  c.asked.config.combine_format = o.combine_format;
  c.asked.config.transfer = o.transfer;
  c.asked.config.rows = o.rows;
  c.asked.links = o.links;
  return c;
}

/// By ranks, group and tokens; two levels are left out where all ranks are one group, since they are one.
void add_table(const forecast_options& o, const forecast_case& like, std::vector<forecast_case>& all) {
  for (const int ranks : o.ranks)
    for (const int group : o.group_sizes)
      for (const int tokens : o.tokens)
        for (const ep_levels by : o.levels) {
          forecast_case c = like;
          c.asked.ranks = ranks;
          c.asked.config.levels = by;
          c.asked.config.p2p_group_size = std::min(group, std::max(ranks, 0));
          c.asked.config.num_max_tokens_per_rank = tokens;
          c.asked.config.num_experts = o.experts != 0 ? o.experts : std::max(experts_of_few, ranks);
          require_served(c);
          if (by == ep_levels::one || c.asked.groups() > 1 || o.levels.size() == 1) all.push_back(c);
        }
}

std::vector<forecast_case> all_cases(const forecast_options& o) {
  std::vector<forecast_case> all;
  for (const ep_layout layout : o.layouts)
    for (const int hidden : o.hidden)
      for (const ep_routing routing : o.routings) add_table(o, like_all(o, layout, hidden, routing), all);
  return all;
}

void forecast_all(const std::vector<forecast_case>& cases, bench_report& to) {
  progress_line progress;
  forecast_table table;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const forecast::question& q = cases[i].asked;
    progress.show(
        fmt::format("{} of {}: {} ranks, {} tokens each", i + 1, cases.size(), q.ranks, q.tokens()));
    const forecast::round_forecast f = forecast_of(cases[i]);
    progress.clear();
    to.add(to_json(cases[i], f));
    to.table([&](std::ostream& out) { table.print(cases[i], f, out); });
  }
  to.table([&](std::ostream& out) { table.print_end(out); });
}

}  // namespace

int run_forecast(const forecast_options& o, std::ostream& out) {
  if (o.measured.empty()) {
    const std::vector<forecast_case> cases = all_cases(o);  // before a file is opened
    bench_report to{o.json, o.json_path, out};
    forecast_all(cases, to);
    to.publish();
  } else {
    require_none(forecast::why_not(o.links), forecast_words);  // no file is to blame
    const measured_rounds measured = read_measured_rounds(o.measured, o.links);
    bench_report to{o.json, o.json_path, out};
    compare_with_forecasts(measured, to);
    to.publish();
  }
  return static_cast<int>(exit_code::ok);
}

}  // namespace baton::cli
