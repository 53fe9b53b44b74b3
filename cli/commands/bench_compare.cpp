#include "cli/commands/bench_compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/bench_comparison.hpp"
#include "cli/exit_code.hpp"
#include "cli/view/text.hpp"

namespace baton::cli {
namespace {

void print(const bench_comparison& all, std::ostream& out) {
  std::string point;
  std::size_t changed = 0;
  for (const time_change& t : all.times) {
    if (!t.is_beyond_spread()) continue;
    ++changed;
    if (point != t.point) out << hanging(printable(point = t.point), 2) << '\n';
    out << fmt::format("  {:<34} {:>9.1f} -> {:>9.1f} us  {:+6.1f} %\n", one_line(t.time, 34), t.old_us,
                       t.new_us, 100 * (t.new_us / t.old_us - 1));
  }
  for (const auto& [points, where] : {std::pair{&all.only_in_old, "old"}, {&all.only_in_new, "new"}})
    for (const std::string& only : *points)
      out << hanging(fmt::format("only in the {} file: {}", where, printable(only)), 2) << '\n';
  out << fmt::format("{} of {} times changed by more than their samples vary\n", changed, all.times.size());
}

nlohmann::json to_json(const bench_comparison& all) {
  nlohmann::json times = nlohmann::json::array();
  for (const time_change& t : all.times)
    times.push_back({{"point", t.point},
                     {"time", t.time},
                     {"old_us", t.old_us},
                     {"new_us", t.new_us},
                     {"spread_us", t.spread_us},
                     {"is_beyond_spread", t.is_beyond_spread()}});
  return {{"command", "bench compare"},
          {"times", times},
          {"only_in_old", all.only_in_old},
          {"only_in_new", all.only_in_new}};
}

}  // namespace

int run_bench_compare(const bench_compare_options& options, std::ostream& out) {
  const bench_comparison all = compare_points(read_points(options.before), read_points(options.after));
  if (options.json)
    out << to_json(all).dump(2) << '\n';
  else
    print(all, out);
  const bool slower =
      std::any_of(all.times.begin(), all.times.end(), [](const time_change& t) { return t.is_slower(); });
  return static_cast<int>(slower ? exit_code::check_failed : exit_code::ok);
}

}  // namespace baton::cli
