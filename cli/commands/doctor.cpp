#include "cli/commands/doctor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>

#include "baton/device_facts.hpp"
#include "baton/error.hpp"
#include "baton/expert_parallel.hpp"
#include "baton/version.hpp"
#include "cli/commands/doctor_findings.hpp"
#include "cli/exit_code.hpp"
#include "cli/view/terminal.hpp"
#include "cli/view/text.hpp"

namespace baton::cli {
namespace {

using nlohmann::json;

/// Of the GPUs that all reach each other, else of the CPU.
trials try_out(const device_facts& facts, device_kind chosen, bool quick) {
  trials tried;
  tried.sharing_problem = process_sharing_problem();
  if (facts.built_with_cuda) tried.network = read_network_facts();
  if (quick) return tried;
  constexpr int cpu_ranks = 2;
  progress_line progress;
  progress.show("measuring links ...");
  try {
    const int ranks = chosen == device_kind::cuda
                          ? std::clamp(static_cast<int>(facts.gpus.size()), 1, most_ranks_of_p2p_group)
                          : cpu_ranks;
    const std::vector<world> worlds = world::local(ranks, chosen);
    tried.links = probe::measure_links(worlds);
    on_every_rank(worlds, [&](int r) {
      line_trial of_all = try_lines(worlds[static_cast<std::size_t>(r)]);
      if (r == 0) tried.lines = std::move(of_all);
    });
  } catch (const std::exception& e) {
    tried.links_problem = e.what();
  }
  return tried;
}

json to_json(const host_facts& h) {
  return {{"cpu", h.cpu},
          {"cores", h.cores},
          {"memory_bytes", h.memory_bytes},
          {"memory_free_bytes", h.memory_free_bytes},
          {"shm_bytes", h.shm_bytes},
          {"kernel", h.kernel}};
}

json to_json(const gpu_facts& g) {
  return {{"ordinal", g.ordinal},
          {"name", g.name},
          {"bus_id", g.bus_id},
          {"compute_capability", fmt::format("{}.{}", g.major, g.minor)},
          {"num_sms", g.num_sms},
          {"memory_bytes", g.memory_bytes},
          {"memory_free_bytes", g.memory_free_bytes},
          {"nvlinks", g.nvlinks < 0 ? json{} : json(g.nvlinks)},
          {"exports_memory", g.exports_memory},
          {"exports_dma_buf", g.exports_dma_buf},
          {"orders_card_writes", g.orders_card_writes},
          {"has_kernels", g.has_kernels},
          {"reaches", g.reaches}};
}

json to_json(const probe::spread& s) {
  return {{"median", s.median}, {"lowest", s.lowest}, {"highest", s.highest}};
}

json to_json(const probe::link_report& l) {
  json egress = json::array();
  for (std::size_t i = 0; i < l.egress_gb_per_s.size(); ++i) {
    egress.push_back(to_json(l.egress_gb_per_s[i]));
    egress.back()["device"] = l.devices[i];
  }
  return {{"between", l.between},
          {"method", l.method},
          {"bytes_per_peer", l.bytes_per_peer},
          {"egress_gb_per_s", egress},
          {"flag_us", to_json(l.flag_us)},
          {"flag_ordered_us", to_json(l.flag_ordered_us)}};
}

json to_json(const line_trial& l) {
  return {{"looked_at", l.looked_at}, {"seen_changing", l.seen_changing}, {"torn", l.torn}};
}

json to_json(const network_facts& n) {
  return {{"nvshmem", n.nvshmem},
          {"nvshmem_version", n.nvshmem_version},
          {"nvshmem_problem", n.nvshmem_problem},
          {"module", n.module},
          {"module_version", n.module_version},
          {"module_problem", n.module_problem},
          {"ports", n.ports},
          {"active_ports", n.active_ports},
          {"opens_verbs", n.opens_verbs},
          {"has_peermem", n.has_peermem},
          {"gpus_put", n.gpus_put},
          {"lockable_bytes", n.lockable_bytes},
          {"heap_grows", n.heap_grows},
          {"heap_variable", n.heap_variable},
          {"most_heap_bytes", n.most_heap_bytes}};
}

json to_json(const finding& f) {
  return {{"subject", f.subject}, {"verdict", name(f.what)}, {"fact", f.fact}, {"fix", f.fix}};
}

void write_json(const device_facts& facts, const trials& tried, const std::vector<finding>& findings,
                device_kind chosen, std::ostream& out) {
  json report{{"version", version()},
              {"build", build_info()},
              {"verdict", name(overall(findings))},
              {"device", chosen == device_kind::cuda ? "cuda" : "cpu"},
              {"host", to_json(facts.host)},
              {"built_with_cuda", facts.built_with_cuda},
              {"driver", facts.driver},
              {"boards", facts.boards},
              {"gpus", json::array()},
              {"links", tried.links ? to_json(*tried.links) : json{}},
              {"lines", tried.lines ? to_json(*tried.lines) : json{}},
              {"network", facts.built_with_cuda ? to_json(tried.network) : json{}},
              {"findings", json::array()}};
  for (const gpu_facts& g : facts.gpus) report["gpus"].push_back(to_json(g));
  for (const finding& f : findings) report["findings"].push_back(to_json(f));
  out << report.dump(2, ' ', false, json::error_handler_t::replace) << '\n';
}

std::string marked(const style& s, verdict v) {
  const char* const text = name(v);
  if (v == verdict::pass) return s.good(text);
  return v == verdict::warn ? s.accent(text) : s.bad(text);
}

/// Which GPU reaches which, and what each pushes.
void write_matrix(const device_facts& facts, const trials& tried, const style& s, std::ostream& out) {
  if (facts.gpus.size() < 2) return;
  std::string header = "        peer access ";
  for (const gpu_facts& g : facts.gpus) header += fmt::format("{:>4}", g.ordinal);
  out << s.dim(header + (tried.links ? "   egress GB/s" : "")) << '\n';
  for (const gpu_facts& g : facts.gpus) {
    out << fmt::format("        gpu {:<8}", g.ordinal) << "    ";
    for (std::size_t other = 0; other < g.reaches.size(); ++other)
      out << fmt::format("{:>4}", static_cast<int>(other) == g.ordinal ? "."
                                  : g.reaches[other]                   ? "yes"
                                                                       : "no");
    if (tried.links)
      for (std::size_t i = 0; i < tried.links->devices.size(); ++i)
        if (tried.links->devices[i] == g.ordinal)
          out << fmt::format("   {:>11.1f}", tried.links->egress_gb_per_s[i].median);
    out << '\n';
  }
}

void write_text(const device_facts& facts, const trials& tried, const std::vector<finding>& findings,
                std::ostream& out) {
  const style s = &out == &std::cout ? style::of_descriptor(1) : style::plain();
  std::size_t width = 0;
  for (const finding& f : findings) width = std::max(width, columns(f.subject));
  out << s.bold(hanging(build_info(), 2)) << "\n\n";
  for (const finding& f : findings) {
    const std::size_t indent = 10 + width;
    // The mark's colours take no columns.
    out << "  " << marked(s, f.what)
        << hanging(fmt::format("        {}{}  {}", f.subject, std::string(width - columns(f.subject), ' '),
                               f.fact),
                   indent)
               .substr(6)
        << '\n';
    if (!f.fix.empty())
      out << std::string(indent, ' ') << s.bold("fix: ")
          << hanging(std::string(indent + 5, ' ') + f.fix, indent).substr(indent + 5) << '\n';
    if (f.subject == "peer access") write_matrix(facts, tried, s, out);
  }
  const auto count = [&](verdict v) {
    return std::count_if(findings.begin(), findings.end(), [&](const finding& f) { return f.what == v; });
  };
  out << fmt::format("\n  {} passed, {} with a warning, {} failed\n", count(verdict::pass),
                     count(verdict::warn), count(verdict::fail));
}

}  // namespace

int run_doctor(const doctor_options& options, std::ostream& out) {
  const device_facts facts = read_device_facts();
  const device_kind chosen = auto_device();
  const trials tried = try_out(facts, chosen, options.quick);
  const std::vector<finding> findings = judge(facts, tried, chosen);
  if (options.json)
    write_json(facts, tried, findings, chosen, out);
  else
    write_text(facts, tried, findings, out);
  return static_cast<int>(overall(findings) == verdict::fail ? exit_code::check_failed : exit_code::ok);
}

}  // namespace baton::cli
