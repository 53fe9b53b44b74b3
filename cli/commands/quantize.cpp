#include "cli/commands/quantize.hpp"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/seconds_since.hpp"
#include "cli/commands/exchange_report.hpp"
#include "cli/exit_code.hpp"
#include "cli/model/quantise_checkpoint.hpp"
#include "cli/view/terminal.hpp"
#include "cli/view/text.hpp"

namespace baton::cli {
namespace {

using clock = std::chrono::steady_clock;

/// Now and then: a strip takes less time than a terminal.
model::quantise_progress shown_on(progress_line& line) {
  return [&line, last = clock::time_point{}](std::uint64_t done, std::uint64_t all) mutable {
    if (seconds_since(last) < 0.1 && done < all) return;
    last = clock::now();
    line.show(fmt::format("{} of {}", bytes_text(done), bytes_text(all)));
  };
}

}  // namespace

int run_quantize(const quantize_options& options, std::ostream& out) {
  const auto start = clock::now();
  progress_line progress;
  progress.show("opening the model");
  const model::checkpoint weights = model::checkpoint::open(options.model);
  const model::quantised_checkpoint done =
      model::quantise_checkpoint(weights, options.output, shown_on(progress));
  progress.clear();
  const double seconds = seconds_since(start);
  if (options.json) {
    out << nlohmann::json{{"command", "quantize"},
                          {"model", printable(options.model.string())},
                          {"output", printable(options.output.string())},
                          {"files", done.files},
                          {"tensors", done.tensors},
                          {"quantised", done.matrices},
                          {"bytes_before", done.bytes_before},
                          {"bytes_after", done.bytes_after},
                          {"seconds", seconds}}
               .dump(2)
        << '\n';
  } else {
    const style marks = style::of_descriptor(1);
    out << marks.bold(describe(weights)) << '\n';
    out << fmt::format("{} of {} tensors are now e4m3 in blocks of 128x128, the others as they were\n",
                       grouped(static_cast<unsigned long long>(done.matrices)),
                       grouped(static_cast<unsigned long long>(done.tensors)));
    out << fmt::format("{} instead of {}, in {}, written to {}\n", bytes_text(done.bytes_after),
                       bytes_text(done.bytes_before), seconds_text(seconds),
                       printable(options.output.string()));
  }
  return static_cast<int>(exit_code::ok);
}

}  // namespace baton::cli
