#include "cli/commands/moe_report.hpp"

#include <fmt/format.h>

#include "cli/commands/exchange_report.hpp"
#include "cli/commands/exchange_summary.hpp"
#include "cli/view/text.hpp"

namespace baton::cli {

using nlohmann::json;

void print_layer(const layer_run& run, std::ostream& out) {
  const style marks = style::of_descriptor(1);
  out << marks.bold(describe(run.weights)) << '\n' << describe(run.exchange, run.options.exchange) << '\n';
  out << fmt::format("layer {}: {} tokens in {}, written to {}\n", run.options.layer, run.input.tokens,
                     seconds_text(run.seconds), printable(run.options.output.string()));
  const exchange_statistics& statistics = run.exchange.experts->statistics();
  print_exchange(statistics, marks, out);
  const exchange_times& t = statistics.seconds;
  const share phases[] = {
      {"dispatch", t.dispatch}, {"experts", t.experts}, {"combine", t.combine}, {"copies", t.copies}};
  out << '\n' << marks.bold("time") << '\n';
  for (const std::string& line : time_shares(phases, marks)) out << line << '\n';
  if (!run.error) return;
  const model::worst_value& worst = run.error->worst;
  out << '\n' << marks.bold(fmt::format("error against {}", expected_name)) << '\n';
  out << fmt::format("  max abs {:.3g}, rms relative {:.3g}\n", run.error->max_abs, run.error->rms_relative);
  out << fmt::format(
      "  worst at [{}, {}]: found {:.7g}, expected {:.7g}, {:.2f} times its rounding bound {:.3g}\n",
      worst.token, worst.column, worst.found, worst.exact, worst.ratio, worst.bound);
  out << (run.error->is_within_bound() ? marks.good("✓ every value is within its rounding bound")
                                       : marks.bad("✗ rounding does not explain this error"))
      << '\n';
}

json layer_json(const layer_run& run) {
  const exchange_times& t = run.exchange.experts->statistics().seconds;
  json result{{"command", "moe"},
              {"model", printable(run.options.model.string())},
              {"layer", run.options.layer},
              {"tokens", run.input.tokens},
              {"output", printable(run.options.output.string())},
              {"settings", settings_json(run.exchange, run.options.exchange)},
              {"exchange", statistics_json(run.exchange.experts->statistics())},
              {"seconds",
               {{"total", run.seconds},
                {"dispatch", t.dispatch},
                {"experts", t.experts},
                {"combine", t.combine},
                {"copies", t.copies}}}};
  if (run.error) {
    const model::worst_value& worst = run.error->worst;
    result["error"] = {{"max_abs", run.error->max_abs},
                       {"rms_relative", run.error->rms_relative},
                       {"within_bound", run.error->is_within_bound()},
                       {"worst",
                        {{"token", worst.token},
                         {"column", worst.column},
                         {"found", worst.found},
                         {"expected", worst.exact},
                         {"bound", worst.bound},
                         {"ratio", worst.ratio}}}};
  }
  return result;
}

}  // namespace baton::cli
