#include "cli/commands/generate_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/commands/exchange_report.hpp"
#include "cli/commands/exchange_summary.hpp"
#include "cli/model/byte_tokenizer.hpp"
#include "cli/view/text.hpp"

namespace baton::cli {
namespace {

using nlohmann::json;

std::string text_of(const sequence& s) {
  return model::decode_bytes(s.generated);
}

/// Nothing where nothing was expected. A continuation that --max-new cut short is compared as far as it goes.
std::optional<bool> is_expected(const generate_run& run, std::size_t i) {
  const std::optional<std::string>& expected = run.prompts[i].expected;
  if (!expected) return std::nullopt;
  return text_of(run.sequences[i]) == expected->substr(0, run.sequences[i].generated.size());
}

/// The first byte at which the text is not the expected one.
std::string difference(const std::string& found, const std::string& expected) {
  const auto at = std::mismatch(found.begin(), found.end(), expected.begin(), expected.end());
  const auto byte = static_cast<std::size_t>(at.first - found.begin());
  return fmt::format("differs at byte {}: expected \"{}\", found \"{}\"", byte,
                     one_line(std::string_view{expected}.substr(byte), 24),
                     one_line(std::string_view{found}.substr(byte), 24));
}

std::vector<share> time_of_phases(const generate_backend& moe, const model::phase_times& network) {
  std::vector<share> phases{
      {"attention", network.attention}, {"router", network.router}, {"head", network.head}};
  if (moe.exchange.experts == nullptr) {
    phases.push_back({"reference experts", network.moe});
    return phases;
  }
  const exchange_times& exchange = moe.exchange.experts->statistics().seconds;
  phases.push_back({"dispatch", exchange.dispatch});
  phases.push_back({"experts", exchange.experts});
  phases.push_back({"combine", exchange.combine});
  phases.push_back({"copies", exchange.copies});
  return phases;
}

double decode_rate(const generate_run& run) {
  const auto decoded = run.times.new_tokens - static_cast<int>(run.sequences.size());
  return run.times.decode_s > 0 ? decoded / run.times.decode_s : 0.0;
}

json sequences_json(const generate_run& run) {
  json list = json::array();
  for (std::size_t i = 0; i < run.sequences.size(); ++i) {
    const sequence& s = run.sequences[i];
    json entry{{"rank", s.rank},
               {"prompt", printable(run.prompts[i].text)},
               {"text", printable(text_of(s))},
               {"tokens", s.generated}};
    const std::optional<bool> verdict = is_expected(run, i);
    if (verdict) entry["is_expected"] = *verdict;
    list.push_back(entry);
  }
  return list;
}

}  // namespace

void print_heading(const generate_run& run, std::size_t i) {
  run.out << '\n'
          << run.marks.accent(fmt::format("── prompt {} on rank {} ──", i, run.sequences[i].rank)) << '\n';
  run.out << run.marks.dim(printable(run.prompts[i].text));
}

void print_verdict(const generate_run& run, std::size_t i) {
  const std::optional<bool> verdict = is_expected(run, i);
  if (!verdict) return;
  const sequence& s = run.sequences[i];
  if (*verdict) {
    run.out << run.marks.good(fmt::format("✓ as expected ({} bytes)", s.generated.size())) << '\n';
  } else {
    const std::string expected = run.prompts[i].expected->substr(0, s.generated.size());
    run.out << run.marks.bad("✗ " + difference(text_of(s), expected)) << '\n';
  }
}

void print_others(const generate_run& run) {
  for (std::size_t i = 1; i < run.sequences.size(); ++i) {
    print_heading(run, i);
    run.out << run.marks.bold(printable(text_of(run.sequences[i]))) << '\n';
    print_verdict(run, i);
  }
}

expectation_score score(const generate_run& run) {
  int good = 0, all = 0;
  for (std::size_t i = 0; i < run.sequences.size(); ++i) {
    const std::optional<bool> verdict = is_expected(run, i);
    all += verdict.has_value();
    good += verdict.value_or(false);
  }
  return {good, all};
}

void print_summary(const generate_run& run, const generate_backend& moe, const model::phase_times& network) {
  if (moe.exchange.experts) print_exchange(moe.exchange.experts->statistics(), run.marks, run.out);
  const std::vector<share> phases = time_of_phases(moe, network);
  run.out << '\n' << run.marks.bold("time") << ", " << seconds_text(run.times.total_s()) << '\n';
  for (const std::string& line : time_shares(phases, run.marks)) run.out << line << '\n';
  run.out << fmt::format("\n{} for {} prompt tokens, then {} tokens/s", seconds_text(run.times.prefill_s),
                         grouped(static_cast<unsigned long long>(run.times.prompt_tokens)),
                         run.marks.bold(fmt::format("{:.0f}", decode_rate(run))));
  run.out << fmt::format(" ({} new tokens in {} sequences)\n", run.times.new_tokens, run.sequences.size());
  const auto [good, all] = score(run);
  if (all == 0) return;
  const std::string verdict = fmt::format("{} of {} continuations are as expected", good, all);
  run.out << (good == all ? run.marks.good("✓ " + verdict) : run.marks.bad("✗ " + verdict)) << '\n';
}

json result_json(const generate_run& run, const generate_backend& moe, const model::phase_times& network) {
  json seconds{{"prefill", run.times.prefill_s}, {"decode", run.times.decode_s}};
  for (const share& phase : time_of_phases(moe, network)) seconds[phase.name] = phase.value;
  json result{{"command", "generate"},
              {"model", printable(run.options.model.string())},
              {"backend", moe.exchange.experts ? "exchange" : "reference"},
              {"attention", moe.attention ? "library" : "host"},
              {"sequences", sequences_json(run)},
              {"prompt_tokens", run.times.prompt_tokens},
              {"new_tokens", run.times.new_tokens},
              {"tokens_per_second", decode_rate(run)},
              {"seconds", seconds}};
  if (moe.exchange.experts) {
    result["settings"] = settings_json(moe.exchange, run.options.exchange);
    result["exchange"] = statistics_json(moe.exchange.experts->statistics());
  }
  const auto [good, all] = score(run);
  if (all > 0) result["as_expected"] = {{"good", good}, {"all", all}};
  return result;
}

}  // namespace baton::cli
