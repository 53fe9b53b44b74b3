#include "cli/commands/forecast_report.hpp"

#include <fmt/format.h>

#include "baton/version.hpp"
#include "cli/exchange_settings.hpp"
#include "cli/view/text.hpp"

namespace baton::cli {
namespace {

using nlohmann::json;

json to_json(const forecast::traffic& t) {
  return {{"messages", t.messages},
          {"bytes", t.bytes},
          {"signals", t.signals},
          {"id_messages", t.id_messages},
          {"id_bytes", t.id_bytes}};
}

json to_json(const forecast::phase_forecast& p) {
  return {{"slowest_us", p.slowest_us},      {"median_us", p.median_us},   {"last_message_us", p.messages_us},
          {"busiest", name(p.of)},           {"busiest_us", p.busiest_us}, {"within_groups", to_json(p.near)},
          {"between_groups", to_json(p.far)}};
}

json axes_of(const forecast_case& c) {
  const forecast::question& q = c.asked;
  const std::string transfer = transfer_of(q);
  return {{"ranks", q.ranks},
          {"p2p_group_size", q.group_size()},
          {"levels", name(q.config.levels)},
          {"tokens", q.tokens()},
          {"hidden", q.config.hidden},
          {"top_k", q.config.top_k},
          {"experts", q.config.num_experts},
          {"layout", cli::name(q.config.layout)},
          {"transfer_in_group", transfer.empty() ? json{} : json(transfer)},
          {"rows", q.config.rows == ep_rows::by_token ? "by_token" : "by_expert"},
          {"format", baton::name(q.config.format)},
          {"combine_format", baton::name(q.config.combine_format)},
          {"routing", cli::name(c.routing)},
          {"seed", c.seed}};
}

json links_of(const forecast::link_facts& l) {
  return {{"link_gb_per_s", l.near_gb_per_s},
          {"link_us", l.near_us},
          {"nic_gb_per_s", l.nic_gb_per_s},
          {"nic_us", l.nic_us},
          {"nic_messages_per_us", l.nic_messages_per_us},
          {"nic_overhead_bytes", l.nic_overhead_bytes},
          {"ranks_per_nic", l.ranks_per_nic},
          {"one_host", l.one_host}};
}

json sizes_of(const forecast::message_sizes& s) {
  return {{"message_in_group", s.near_message},
          {"reply_in_group", s.near_reply},
          {"message_to_rank", s.far_message},
          {"reply_to_rank", s.far_reply},
          {"message_to_group", s.group_message},
          {"reply_of_group", s.group_reply},
          {"window", s.window_bytes > 0 ? json(s.window_bytes) : json{}}};
}

std::string heading_of(const forecast_case& c) {
  const forecast::question& q = c.asked;
  const forecast::link_facts& l = q.links;
  std::string text =
      fmt::format("Layout {}, {} out, ", cli::name(q.config.layout), baton::name(q.config.format));
  text += fmt::format("{} back, hidden {}, top {}, {} routing\n", baton::name(q.config.combine_format),
                      q.config.hidden, q.config.top_k, cli::name(c.routing));
  text += fmt::format("GPU links: {:g} GB/s, {:g} us. ", l.near_gb_per_s, l.near_us);
  if (l.one_host) return text + "One host: puts pass them, too\n";
  text += fmt::format("Network cards: {:g} GB/s, {:g} us, ", l.nic_gb_per_s, l.nic_us);
  return text + (l.ranks_per_nic == 1 ? "one a rank\n" : fmt::format("one for {} ranks\n", l.ranks_per_nic));
}

std::string words(forecast::bottleneck b) {
  std::string text = name(b);
  for (char& letter : text)
    if (letter == '_') letter = ' ';
  return text;
}

}  // namespace

const char* name(ep_levels by) {
  return by == ep_levels::one ? "one" : "two";
}

json to_json(const forecast_case& c, const forecast::round_forecast& f) {
  return {{"schema", "baton.forecast/1"},
          {"axes", axes_of(c)},
          {"has_kernels", has_kernels(c.asked)},
          {"links", links_of(c.asked.links)},
          {"bytes", sizes_of(f.sizes)},
          {"tokens_of_train", f.tokens_of_train},
          {"dispatch", to_json(f.dispatch)},
          {"combine", to_json(f.combine)},
          {"round_us", f.round_us()},
          {"version", version()}};
}

void forecast_table::print(const forecast_case& c, const forecast::round_forecast& f, std::ostream& out) {
  if (const std::string heading = heading_of(c); heading != heading_) {
    out << (heading_.empty() ? "Forecast: nothing is sent or measured; us until the slowest rank is done.\n\n"
                             : "\n")
        << heading << '\n'
        << fmt::format("{:>6}{:>7}{:>8}{:>8}{:>9}{:>9}{:>9}   {}\n", "ranks", "group", "tokens", "levels",
                       "dispatch", "combine", "round", "busiest: out, back");
    heading_ = heading;
  }
  const bool is_written = has_kernels(c.asked);
  has_unwritten_ |= !is_written;
  out << fmt::format("{:>6}{:>7}{:>8}{:>8}{:>9.1f}{:>9.1f}{:>9.1f}{}  {}, {}\n", c.asked.ranks,
                     c.asked.group_size(), c.asked.tokens(), name(c.asked.config.levels),
                     f.dispatch.slowest_us, f.combine.slowest_us, f.round_us(), is_written ? " " : "*",
                     words(f.dispatch.of), words(f.combine.of));
}

void forecast_table::print_end(std::ostream& out) const {
  if (!has_unwritten_) return;
  out << "\n* There are no kernels for this yet: they take up to 32 ranks in groups\n"
         "  of up to 8, and two levels with layout per_rank in groups all as large.\n";
}

}  // namespace baton::cli
