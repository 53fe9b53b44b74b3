#include "cli/bench/decode_point.hpp"

#include <fmt/format.h>

#include "cli/bench/statistics.hpp"

namespace baton::cli {
namespace {

nlohmann::json word_or_null(const std::string& text) {
  return text.empty() ? nlohmann::json() : nlohmann::json(text);
}

}  // namespace

double decode_point::gigabytes_per_s() const {
  const double us = median_of(burst_us);
  return us > 0 ? size.bytes() / us / 1e3 : 0;
}

nlohmann::json to_json(const gemm_run& run, const decode_point& p) {
  const decode_size& s = p.size;
  const double copied = run.copied_bytes_per_us / 1e3;
  nlohmann::json point{{"schema", "baton.bench.attention_decode/1"},
                       {"who", "baton"},
                       {"model", word_or_null(s.of.model)},
                       {"layer", word_or_null(s.of.layer)},
                       {"batch", s.batch},
                       {"rows", s.rows},
                       {"keys", s.keys},
                       {"heads", s.of.heads},
                       {"kv_heads", s.of.kv_heads},
                       {"head_dim", s.of.head_dim},
                       {"page_size", s.page_size},
                       {"caches", p.caches},
                       {"window", s.of.window > 0 ? nlohmann::json(s.of.window) : nlohmann::json()},
                       {"format", name(s.format)},
                       {"cache_format", name(s.cache)},
                       {"why_not", word_or_null(p.why_not)},
                       {"gb_per_s", if_measured(p.gigabytes_per_s())},
                       {"of_copy", if_measured(copied > 0 ? p.gigabytes_per_s() / copied : 0)}};
  point = with_times(std::move(point), run, {s.flops(), s.bytes(), p.wrong, p.burst_us, p.sustained_us});
  if (!p.why_not.empty()) point["checked"] = false;
  return point;
}

void print_decode_header(const gemm_run& run, std::ostream& out) {
  print_limits(run, "softmax(q k^T) v of few rows", out);
  out << fmt::format("\n{:<20}{:>14}{:>7}{:>6}{:>9}{:>6}{:>6}{:>7}{:>12}{:>9}{:>9}{:>13}\n", "model", "heads",
                     "batch", "rows", "keys", "page", "of", "cache", "burst us", "GB/s", "of copy",
                     "sustained us");
}

void print(const gemm_run& run, const decode_point& p, std::ostream& out) {
  const decode_size& s = p.size;
  out << fmt::format("{:<20}{:>14}{:>7}{:>6}{:>9}{:>6}{:>6}{:>7}",
                     s.of.model.empty() ? "-" : s.of.model + " " + s.of.layer,
                     fmt::format("{}/{} of {}", s.of.heads, s.of.kv_heads, s.of.head_dim), s.batch, s.rows,
                     s.keys, s.page_size, name(s.format), name(s.cache));
  if (!p.why_not.empty())
    out << fmt::format("  no kernel: {}\n", p.why_not);
  else if (!p.wrong.empty())
    out << fmt::format("  WRONG: {}\n", p.wrong);
  else
    out << fmt::format("{:>12.2f}{:>9.4g}{:>9}{:>13}\n", median_of(p.burst_us), p.gigabytes_per_s(),
                       percent_of(p.gigabytes_per_s(), run.copied_bytes_per_us / 1e3),
                       p.sustained_us > 0 ? fmt::format("{:.2f}", p.sustained_us) : "-");
}

}  // namespace baton::cli
