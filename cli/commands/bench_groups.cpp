#include "cli/commands/bench_groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "baton/version.hpp"
#include "cli/bench/gpu_facts.hpp"
#include "cli/bench/group_rounds.hpp"
#include "cli/bench/nvshmem_all_to_all.hpp"
#include "cli/bench/require_within.hpp"
#include "cli/bench/statistics.hpp"
#include "cli/commands/bench_report.hpp"
#include "cli/commands/exchange_arguments.hpp"
#include "cli/config_words.hpp"
#include "cli/exit_code.hpp"

namespace baton::cli {
namespace {

using nlohmann::json;

constexpr int warm_up_samples = 2;

void require(const bench_groups_options& o) {
  require_within("--repeats", o.repeats, 1, 1 << 20);
  require_within("--rounds", o.rounds, 1, 128);  // a stream holds 1024 launches behind a closed gate
  for (const int tokens : o.tokens) require_within("--tokens", tokens, 1, 1 << 16);
  for (const int size : o.group_sizes) require_within("--group-size", size, 0, 1 << 12);
}

/// Through which groups rounds go, and how to ranks beyond them.
struct group_way {
  int size;
  ep_levels levels;
  /// Both levels are the same then.
  bool is_one_group(int ranks) const { return size >= ranks; }
  /// Of ranks whose sums become one before they travel on: with another size sums have other bits. 1: one by one.
  int added_up(int ranks) const { return levels == ep_levels::one || is_one_group(ranks) ? 1 : size; }
};

std::vector<group_way> ways_of(const std::vector<int>& sizes, const std::vector<ep_levels>& levels,
                               int ranks) {
  std::vector<group_way> all;
  for (const int size : sizes)
    for (const ep_levels by : levels)
      if (const group_way way{size, by}; !way.is_one_group(ranks) || by == levels.front()) all.push_back(way);
  return all;
}

ep_config config_of(const bench_groups_options& o, int tokens, const group_way& way, int ranks) {
  ep_config c{.num_experts = o.experts,
              .top_k = o.top_k,
              .hidden = o.hidden,
              .num_max_tokens_per_rank = tokens,
              .layout = o.layout,
              .transfer = o.transfer};
  c.p2p_group_size = way.size;
  c.levels = way.levels;
  require_served(c, ranks, group_words);
  return c;
}

/// Of all ranks: the slowest's.
double slowest(const world& own, double us) {
  std::vector<double> all(static_cast<std::size_t>(own.size()));
  own.all_gather(&us, all.data(), sizeof us);
  return *std::max_element(all.begin(), all.end());
}

/// Whether all ranks say so.
bool all_say(const world& own, bool yes) {
  return slowest(own, yes ? 0 : 1) == 0;
}

/// One size, each way.
struct groups_point {
  int tokens = 0;
  std::vector<group_way> ways{};
  std::uint64_t bytes_out = 0, bytes_back = 0;  // that a rank sends to each rank, in the mean
  bool right = true, same_bits = true;
  std::vector<std::vector<double>> round_us{};  // [way][repeat], of the slowest rank
  std::vector<double> all_to_all_us{};          // both ways
  std::string version{}, why_no_all_to_all{};
};

/// How many of a token's messages a rank gets: of layout per_rank one, if any of the token's experts, which are drawn at
/// random, is there.
double messages_of_token(const ep_config& c, int ranks) {
  if (c.layout == ep_layout::per_expert) return static_cast<double>(c.top_k) / ranks;
  double none = 1;
  const double here = static_cast<double>(c.num_experts) / ranks;
  for (int k = 0; k < c.top_k; ++k) none *= std::max(0.0, 1 - here / (c.num_experts - k));
  return 1 - none;
}

/// The sizes of one message each way, times how many a rank has for each.
void count_bytes(const ep_config& c, int ranks, groups_point& point) {
  const auto messages =
      static_cast<std::uint64_t>(std::ceil(c.num_max_tokens_per_rank * messages_of_token(c, ranks)));
  point.bytes_out = point.bytes_back = messages * 2 * static_cast<std::uint64_t>(c.hidden);
}

void time_all_to_all(const world& own, const bench_groups_options& o, round_timer& timer,
                     groups_point& point) {
  const auto beside =
      open_nvshmem_all_to_all(own, std::max(point.bytes_out, point.bytes_back), point.why_no_all_to_all);
  if (beside == nullptr) return;
  point.version = beside->version();
  const std::string wrong = beside->first_wrong(point.bytes_out);
  if (!all_say(own, wrong.empty())) {
    point.why_no_all_to_all = wrong.empty() ? "another rank has not what it was sent" : wrong;
    return;
  }
  const auto both_ways = [&](stream_ref stream) {
    beside->enqueue(point.bytes_out, stream);
    beside->enqueue(point.bytes_back, stream);
  };
  for (int i = -warm_up_samples; i < o.repeats; ++i) {
    const double us = slowest(own, timer.time(o.rounds, both_ways));
    if (i >= 0) point.all_to_all_us.push_back(us);
  }
}

groups_point measure(const world& own, const bench_groups_options& o, int tokens,
                     const std::vector<group_way>& ways, round_timer& timer) {
  groups_point point{.tokens = tokens, .ways = ways};
  count_bytes(config_of(o, tokens, ways.front(), own.size()), own.size(), point);
  std::map<int, std::vector<float>> bits;  // of what is added up
  for (const group_way& way : ways) {
    group_rounds rounds{own, config_of(o, tokens, way, own.size()), o.seed};
    point.right = all_say(own, rounds.verify().wrong == 0) && point.right;
    const std::vector<float>& first = bits.try_emplace(way.added_up(own.size()), rounds.sums()).first->second;
    const bool are_those = first == rounds.sums();
    rounds.run();
    point.same_bits = all_say(own, are_those && first == rounds.sums()) && point.same_bits;
    std::vector<double>& times = point.round_us.emplace_back();
    if (!point.right || !point.same_bits) break;
    for (int i = -warm_up_samples; i < o.repeats; ++i) {
      const double us =
          slowest(own, timer.time(o.rounds, [&](stream_ref stream) { rounds.enqueue(stream); }));
      if (i >= 0) times.push_back(us);
    }
  }
  const bool has_joined = std::any_of(ways.begin(), ways.end(),
                                      [&](const group_way& way) { return !way.is_one_group(own.size()); });
  if (has_joined)
    time_all_to_all(own, o, timer, point);
  else
    point.why_no_all_to_all = "no group is smaller than the ranks, so that NVSHMEM was not opened";
  return point;
}

template <class T>
json word_of(const std::map<std::string, T>& words, T value) {
  for (const auto& [word, of] : words)
    if (of == value) return word;
  return {};
}

/// How tokens travel; null: the layout knows one way.
json transfer_through(const bench_groups_options& o, int tokens, const group_way& way, int ranks) {
  if (o.layout != ep_layout::per_rank) return {};
  return word_of(transfer_names, transfer_of(config_of(o, tokens, way, ranks), ranks));
}

json unless_empty(const std::vector<double>& samples, double value) {
  return samples.empty() ? json{} : json(value);
}

json to_json(const groups_point& p, const bench_groups_options& o, const json& run) {
  json j = run;
  j["tokens"] = p.tokens;
  j["checked"] = p.right;
  j["same_bits"] = p.same_bits;
  j["bytes_to_each_rank"] = {p.bytes_out, p.bytes_back};
  j["groups"] = json::array();
  for (std::size_t i = 0; i < p.round_us.size(); ++i)
    j["groups"].push_back({{"p2p_group_size", p.ways[i].size},
                           {"levels", word_of(level_names, p.ways[i].levels)},
                           {"transfer", transfer_through(o, p.tokens, p.ways[i], run["ranks"])},
                           {"round_median_us", unless_empty(p.round_us[i], median_of(p.round_us[i]))},
                           {"round_mad_us", unless_empty(p.round_us[i], mad_of(p.round_us[i]))},
                           {"round_samples_us", p.round_us[i]}});
  j["nvshmem"] = p.version.empty() ? json{} : json(p.version);
  j["all_to_all_median_us"] = unless_empty(p.all_to_all_us, median_of(p.all_to_all_us));
  j["all_to_all_samples_us"] = p.all_to_all_us;
  j["why_no_all_to_all"] = p.why_no_all_to_all.empty() ? json{} : json(p.why_no_all_to_all);
  return j;
}

const char* reached_by(const group_way& way, int ranks) {
  if (way.is_one_group(ranks)) return "stores";
  return way.levels == ep_levels::one ? "puts between them" : "puts, two levels";
}

void print(const groups_point& p, int ranks, std::ostream& out) {
  if (!p.right || !p.same_bits) {
    out << fmt::format("{:>7}  WRONG: {}\n", p.tokens,
                       p.right ? "other bits than before" : "not the sums of its inputs");
    return;
  }
  for (std::size_t i = 0; i < p.round_us.size(); ++i)
    out << fmt::format("{:>7}  {:<30}{:>11.1f}{:>8.1f}\n", p.tokens,
                       fmt::format("groups of {}: {}", p.ways[i].size, reached_by(p.ways[i], ranks)),
                       median_of(p.round_us[i]), mad_of(p.round_us[i]));
  if (p.all_to_all_us.empty())
    out << fmt::format("{:>7}  no all-to-all beside: {}\n", p.tokens, p.why_no_all_to_all);
  else
    out << fmt::format("{:>7}  {:<30}{:>11.1f}{:>8.1f}\n", p.tokens,
                       fmt::format("NVSHMEM {}: 2 all-to-alls", p.version), median_of(p.all_to_all_us),
                       mad_of(p.all_to_all_us));
}

json facts_of_run(const world& own, const bench_groups_options& o, const std::optional<measured_gpus>& gpu) {
  return {{"schema", "baton.bench.groups/1"},
          {"device", own.device() == device_kind::cuda ? "cuda" : "cpu"},
          {"gpu_of_rank_0", gpu ? json(gpu->name) : json{}},
          {"driver", gpu ? json(gpu->driver) : json{}},
          {"ranks", own.size()},
          {"layout", name(o.layout)},
          {"hidden", o.hidden},
          {"top_k", o.top_k},
          {"experts", o.experts},
          {"rounds", o.rounds},
          {"date", utc_now()},
          {"version", version()},
          {"build", build_info()}};
}

}  // namespace

int run_bench_groups(const bench_groups_options& o, std::ostream& out) {
  require(o);
  const world own = world::from_environment(o.device ? *o.device : auto_device());
  const bool on_gpu = own.device() == device_kind::cuda;
  const std::array worlds{own};
  const std::optional<measured_gpus> gpu = facts_of(worlds);
  const json run = facts_of_run(own, o, gpu);
  std::vector<int> group_sizes = o.group_sizes, tokens = o.tokens;
  if (group_sizes.empty()) group_sizes = {std::min(own.size(), most_ranks_of_p2p_group), 1};
  for (int& size : group_sizes)
    if (size == 0) size = own.size();
  const std::vector<group_way> ways = ways_of(group_sizes, o.levels, own.size());
  if (tokens.empty()) tokens = on_gpu ? std::vector<int>{1, 8, 128} : std::vector<int>{4};
  const std::unique_ptr<round_timer> timer = make_round_timer(own);
  std::optional<bench_report> to;
  if (own.rank() == 0) to.emplace(o.json, o.json_path, out);
  if (to)
    to->table([&](std::ostream& table) {
      table << fmt::format(
          "{} ranks, a process each, on {}; top {} of {} experts, hidden {}, bf16, layout {}\n\n"
          "{:>7}  {:<30}{:>11}{:>8}\n",
          own.size(), gpu ? "GPUs: " + gpu->name + " each" : "the CPU", o.top_k, o.experts, o.hidden,
          name(o.layout), "tokens", "a round, slowest rank", "median us", "+-");
    });
  bool all_right = true;
  for (const int count : tokens) {
    const groups_point point = measure(own, o, count, ways, *timer);
    all_right = all_right && point.right && point.same_bits;
    if (!to) continue;
    to->add(to_json(point, o, run));
    to->table([&](std::ostream& table) { print(point, own.size(), table); });
  }
  if (to) to->publish();
  return static_cast<int>(all_right ? exit_code::ok : exit_code::check_failed);
}

}  // namespace baton::cli
