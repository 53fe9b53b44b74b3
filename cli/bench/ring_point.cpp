#include "cli/bench/ring_point.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "baton/version.hpp"
#include "cli/bench/statistics.hpp"

namespace baton::cli {
namespace {

constexpr const char* schema = "baton.bench.ring/1";

const char* name_of(const std::optional<ring_strategy>& strategy) {
  return strategy ? name(*strategy) : "cublas";
}

nlohmann::json described(const ring_run& run, const char* what,
                         const std::optional<ring_strategy>& strategy) {
  return {{"schema", schema},
          {"case", what},
          {"strategy", name_of(strategy)},
          {"device", run.device},
          {"gpu", run.gpu.empty() ? nlohmann::json() : nlohmann::json(run.gpu)},
          {"driver", run.driver == 0 ? nlohmann::json() : nlohmann::json(run.driver)},
          {"date", run.date},
          {"version", version()},
          {"build", build_info()}};
}

}  // namespace

double ring_gemm_point::teraflops() const {
  const double us = median_of(samples_us);
  return us > 0 ? flops() / us / 1e6 : 0;
}

nlohmann::json to_json(const ring_run& run, const hand_off_point& p) {
  nlohmann::json j = described(run, "hand_off", p.strategy);
  j["stages"] = p.stages;
  j["readers"] = p.readers;
  j["hand_offs"] = p.hand_offs;
  j["median_cycles"] = median_of(p.cycles);
  j["mad_cycles"] = mad_of(p.cycles);
  j["samples_cycles"] = p.cycles;
  return j;
}

nlohmann::json to_json(const ring_run& run, const ring_gemm_point& p) {
  nlohmann::json j = described(run, "ring_gemm", p.strategy);
  if (!p.strategy) j["cublas"] = run.cublas;
  j["m"] = j["n"] = j["k"] = p.size;
  j["tiles"] = p.tiles;
  j["checked"] = p.wrong.empty();
  j["wrong"] = p.wrong.empty() ? nlohmann::json() : nlohmann::json(p.wrong);
  j["flops"] = p.flops();
  j["median_us"] = p.samples_us.empty() ? nlohmann::json() : nlohmann::json(median_of(p.samples_us));
  j["mad_us"] = p.samples_us.empty() ? nlohmann::json() : nlohmann::json(mad_of(p.samples_us));
  j["tflops"] = p.samples_us.empty() ? nlohmann::json() : nlohmann::json(p.teraflops());
  j["samples_us"] = p.samples_us;
  return j;
}

void print_header(const ring_run& run, std::ostream& out) {
  out << fmt::format("ring buffers on {}\n", run.gpu.empty() ? "the CPU" : run.gpu);
  if (!run.why_no_cublas.empty()) out << fmt::format("no cuBLAS beside: {}\n", run.why_no_cublas);
  if (!run.why_no_hand_offs.empty()) out << fmt::format("no hand-offs: {}\n", run.why_no_hand_offs);
}

void print_hand_offs(const std::vector<hand_off_point>& points, std::ostream& out) {
  if (points.empty()) return;
  std::map<std::pair<int, int>, double> cycles;
  std::set<int> readers, stages;
  for (const hand_off_point& p : points) {
    cycles[{p.readers, p.stages}] = median_of(p.cycles);
    readers.insert(p.readers);
    stages.insert(p.stages);
  }
  out << fmt::format("\n{}: cycles per hand-off\n  readers \\ stages", name(points[0].strategy));
  for (const int s : stages) out << fmt::format("{:>7}", s);
  out << '\n';
  for (const int r : readers) {
    out << fmt::format("{:>18}", r);
    for (const int s : stages) out << fmt::format("{:>7.0f}", cycles[{r, s}]);
    out << '\n';
  }
}

void print_gemm_header(std::ostream& out) {
  out << fmt::format("\n{:<18}{:>9}  {:<10}{:>12}{:>8}{:>10}{:>11}\n", "C = A * B^T", "m = n = k", "tiles",
                     "median us", "+-", "TFLOP/s", "of cuBLAS");
}

void print_gemm(const ring_gemm_point& p, double reference_us, std::ostream& out) {
  const char* who = name_of(p.strategy);
  if (!p.wrong.empty()) {
    out << fmt::format("{:<18}{:>9}  {:<10}WRONG: {}\n", who, p.size, p.tiles, p.wrong);
    return;
  }
  const double us = median_of(p.samples_us);
  const std::string share =
      reference_us > 0 && p.strategy ? fmt::format("{:.0f} %", 100 * reference_us / us) : "-";
  out << fmt::format("{:<18}{:>9}  {:<10}{:>12.1f}{:>8.1f}{:>10.4g}{:>11}\n", who, p.size, p.tiles, us,
                     mad_of(p.samples_us), p.teraflops(), share);
}

}  // namespace baton::cli
