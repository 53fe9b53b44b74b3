#include "cli/commands/check_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <sstream>

#include "cli/view/text.hpp"

namespace baton::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t name_columns = 42, mutant_columns = 50;

/// What an exploration came to, in a word or two.
std::string verdict_of(const check::result& r) {
  if (r.found != check::verdict::none) return check::name(r.found);
  if (!r.complete) return "nothing so far";
  return "holds";
}

ordered_json to_json(const check_run& run, bool with_trace) {
  const check::result& r = run.result;
  ordered_json object;
  if (run.mutant != nullptr) {
    ordered_json wanted = ordered_json::array();
    for (const check::verdict v : run.mutant->noticed_as) wanted.push_back(check::name(v));
    object = {{"name", run.mutant->name},
              {"breaks", run.mutant->breaks},
              {"noticed_as", wanted},
              {"verdict", check::name(r.found)},
              {"killed", is_killed(run)}};
  } else {
    object = {{"name", run.exploration->name}, {"verdict", verdict_of(r)}, {"holds", r.holds()}};
  }
  object.update({{"finding", r.text},
                 {"complete", r.complete},
                 {"executions", r.executions},
                 {"cut", r.cut},
                 {"steps", r.steps},
                 {"longest", r.longest},
                 {"seconds", r.seconds}});
  if (with_trace && !r.counterexample.empty()) object["counterexample"] = r.counterexample;
  if (with_trace && !r.trace.empty()) object["trace"] = r.trace;
  return object;
}

ordered_json description(const checks::protocol_check& p) {
  return {{"name", p.name}, {"title", p.title}, {"headers", p.headers}};
}

/// Spaces that fill `text` up; fmt counts bytes.
std::string padding(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, columns(text)), ' ');
}

}  // namespace

bool is_killed(const check_run& run) {
  const std::vector<check::verdict>& wanted = run.mutant->noticed_as;
  return std::find(wanted.begin(), wanted.end(), run.result.found) != wanted.end();
}

void list_checks(const std::vector<const checks::protocol_check*>& protocols, bool as_json,
                 std::ostream& out) {
  if (as_json) {
    ordered_json all = ordered_json::array();
    for (const checks::protocol_check* p : protocols) {
      all.push_back(description(*p));
      for (const checks::exploration& e : p->explorations) all.back()["explorations"].push_back(e.name);
      for (const checks::mutant& m : p->mutants) all.back()["mutants"].push_back(m.name);
    }
    out << ordered_json{{"protocols", all}}.dump(2) << '\n';
    return;
  }
  std::size_t width = 0;
  for (const checks::protocol_check* p : protocols) width = std::max(width, p->name.size());
  for (const checks::protocol_check* p : protocols) {
    out << hanging(fmt::format("{:<{}}  {}", p->name, width, p->title), width + 2) << '\n'
        << fmt::format("{:<{}}  {} explorations, {} mutants\n{:<{}}  {}\n", "", width, p->explorations.size(),
                       p->mutants.size(), "", width, p->headers.front());
  }
}

check_report::check_report(const check_options& options, std::ostream& out)
    : options_{options}, out_{out}, marks_{&out == &std::cout ? style::of_descriptor(1) : style::plain()} {
  if (options_.json) return;
  out_ << marks_.dim(fmt::format("  {:<{}} {:>10} {:>7} {:>8}  {}", "protocol, explorations", name_columns,
                                 "executions", "longest", "time", "result"))
       << '\n';
}

void check_report::add(const check_run& run) {
  if (run.protocol != protocol_) {
    end_protocol();
    begin_protocol(run);
  }
  executions_ += run.result.executions;
  if (run.mutant != nullptr)
    add_mutant(run);
  else
    add_exploration(run);
  out_.flush();
}

void check_report::begin_protocol(const check_run& run) {
  protocol_ = run.protocol;
  ++protocols_;
  mutants_here_ = killed_here_ = 0;
  mutant_seconds_here_ = 0;
  survivors_here_.clear();
  if (options_.json) {
    json_.push_back(description(*protocol_));
    json_.back()["explorations"] = json_.back()["mutants"] = ordered_json::array();
    return;
  }
  out_ << (protocols_ > 1 ? "\n" : "") << marks_.bold(protocol_->name) << "  " << protocol_->title << '\n';
}

void check_report::add_exploration(const check_run& run) {
  const check::result& r = run.result;
  const bool is_cut_short = r.found == check::verdict::none && !r.complete;
  const bool was_asked_to = options_.bound > 0 || options_.seconds > 0 || options_.seed.has_value();
  ++explorations_;
  holding_ += r.holds() ? 1 : 0;
  cut_short_ += is_cut_short ? 1 : 0;
  failures_ += r.holds() || (is_cut_short && was_asked_to) ? 0 : 1;
  if (options_.json) {
    json_.back()["explorations"].push_back(to_json(run, options_.trace));
    return;
  }
  const std::string verdict = r.holds() ? "holds" : is_cut_short ? "so far" : "fails";
  const std::string time = seconds_text(r.seconds);
  print_name(run.exploration->name, name_columns);
  out_ << fmt::format(" {:>10} {:>7} ", grouped(r.executions), r.longest) << padding(time, 8) << time << "  "
       << (r.holds()      ? marks_.good(verdict)
           : is_cut_short ? marks_.accent(verdict)
                          : marks_.bad(verdict))
       << '\n';
  if (r.found != check::verdict::none) print_text(verdict_of(r) + ": " + r.text, 4);
  if (options_.trace) print_trace(r.found != check::verdict::none ? r.counterexample : r.trace);
}

void check_report::add_mutant(const check_run& run) {
  const bool killed = is_killed(run);
  ++mutants_;
  ++mutants_here_;
  killed_ += killed ? 1 : 0;
  killed_here_ += killed ? 1 : 0;
  failures_ += killed ? 0 : 1;
  mutant_seconds_here_ += run.result.seconds;
  if (options_.json) {
    json_.back()["mutants"].push_back(to_json(run, options_.trace));
    return;
  }
  const std::string noticed = check::name(run.result.found);
  if (!killed) survivors_here_.push_back(fmt::format("{} ({})", run.mutant->name, noticed));
  if (!options_.mutants) return;
  if (mutants_here_ == 1)
    out_ << marks_.dim(fmt::format("  {:<{}} {:<7} {}", "mutants", mutant_columns, "breaks", "noticed as"))
         << '\n';
  print_name(run.mutant->name, mutant_columns);
  out_ << fmt::format(" {:<7} ", run.mutant->breaks) << (killed ? marks_.good(noticed) : marks_.bad(noticed))
       << '\n';
  if (run.result.found != check::verdict::none) print_text(run.result.text, 6);
  if (options_.trace) print_trace(run.result.counterexample);
}

void check_report::end_protocol() {
  if (protocol_ == nullptr || options_.json) return;
  if (mutants_here_ > 0) {
    const std::string killed = fmt::format("{} of {} mutants killed", killed_here_, mutants_here_);
    out_ << "  " << (survivors_here_.empty() ? marks_.good(killed) : marks_.bad(killed)) << ", "
         << seconds_text(mutant_seconds_here_) << '\n';
  }
  for (const std::string& name : survivors_here_) {
    out_ << "    " << marks_.bad("not noticed") << ": " << name << '\n';
  }
}

/// As many lines as it needs; what comes behind it stands in the last.
void check_report::print_name(const std::string& name, std::size_t width) {
  const std::vector<std::string> lines = wrapped(one_line(name, 10 * width), width);
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) out_ << "  " << lines[i] << '\n';
  out_ << "  " << lines.back() << padding(lines.back(), width);
}

/// A finding, broken to fit; the first lines of it, unless traces are wanted as well.
void check_report::print_text(const std::string& text, std::size_t indent) {
  constexpr std::size_t most_lines = 4, continued = 4;
  std::vector<std::string> all;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) {
    const std::string_view before = all.empty() ? "" : "  ";
    bool is_first = true;
    for (const std::string& part : wrapped(line.substr(std::min(line.find_first_not_of(' '), line.size())),
                                           terminal_columns - indent - continued)) {
      all.push_back(std::string{before} + (is_first ? "" : "  ") + part);
      is_first = false;
    }
  }
  const bool is_cut = all.size() > most_lines && !options_.trace;
  const std::size_t shown = is_cut ? most_lines : all.size();
  for (std::size_t i = 0; i < shown; ++i) out_ << std::string(indent, ' ') << marks_.dim(all[i]) << '\n';
  if (is_cut) out_ << std::string(indent, ' ') << marks_.dim("  ... (all of it with --trace)") << '\n';
}

void check_report::print_trace(const std::string& trace) {
  std::istringstream lines{trace};
  for (std::string line; std::getline(lines, line);) out_ << hanging("  " + line, 10) << '\n';
}

void check_report::close() {
  end_protocol();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  if (options_.json) {
    out_ << ordered_json{{"protocols", json_},
                         {"all_well", all_well()},
                         {"executions", executions_},
                         {"seconds", seconds}}
                .dump(2, ' ', false, ordered_json::error_handler_t::replace)
         << '\n';
    return;
  }
  const std::string cut = cut_short_ == 0 ? "" : fmt::format(", {} cut short", cut_short_);
  const std::string text =
      fmt::format("{} protocol{}: {} of {} explorations hold{}, {} of {} mutants killed; {} executions, {}",
                  protocols_, protocols_ == 1 ? "" : "s", holding_, explorations_, cut, killed_, mutants_,
                  grouped(executions_), seconds_text(seconds));
  const std::string fitting = hanging(text, 2);
  out_ << '\n' << (all_well() ? marks_.good(fitting) : marks_.bad(fitting)) << '\n';
}

}  // namespace baton::cli
