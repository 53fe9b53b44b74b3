#include "cli/commands/doctor_findings.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "baton/expert_parallel.hpp"
#include "cli/commands/doctor_network.hpp"
#include "cli/view/text.hpp"

namespace baton::cli {
namespace {

constexpr std::uint64_t gib = std::uint64_t{1} << 30;
constexpr std::uint64_t little_host_memory = gib;
constexpr double slow_egress_gb_per_s = 200;  // NVLink 4 gives about 350, PCIe 5 about 50
constexpr double slow_flag_us = 5;            // NVLink gives about 1.4

using findings = std::vector<finding>;

void judge_host(const host_facts& h, findings& out) {
  out.push_back(
      {"cpu", verdict::pass, fmt::format("{}, {} core{}", h.cpu, h.cores, h.cores == 1 ? "" : "s"), ""});
  const std::string memory =
      fmt::format("{} of {} free", bytes_text(h.memory_free_bytes), bytes_text(h.memory_bytes));
  if (h.memory_free_bytes < little_host_memory)
    out.push_back(
        {"memory", verdict::warn, memory, "close other programs, or use fewer ranks and smaller models"});
  else
    out.push_back({"memory", verdict::pass, memory, ""});
}

void judge_sharing(const std::string& problem, findings& out) {
  if (problem.empty())
    out.push_back({"processes", verdict::pass, "ranks in separate processes can meet and share memory", ""});
  else
    out.push_back({"processes", verdict::fail, problem,
                   "allow abstract Unix sockets and memfd_create (seccomp, AppArmor), or run all ranks in "
                   "one process"});
}

std::string cuda_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string boards_text(const std::vector<std::string>& boards) {
  if (boards.empty()) return "no NVIDIA GPU";
  const bool alike = std::all_of(boards.begin(), boards.end(), [&](const auto& b) { return b == boards[0]; });
  return fmt::format("{} x {}{}", boards.size(), boards[0], alike ? "" : " and others");
}

void judge_build_without_cuda(const device_facts& f, findings& out) {
  if (f.boards.empty())
    out.push_back({"cuda", verdict::pass, "not in this build, and no NVIDIA GPU here", ""});
  else
    out.push_back(
        {"cuda", verdict::warn, fmt::format("not in this build, but here are {}", boards_text(f.boards)),
         "install the CUDA toolkit 13 and build again with -DBATON_CUDA=ON (./dev does it by itself)"});
}

void judge_driver(const device_facts& f, findings& out) {
  const std::string fact =
      fmt::format("built with CUDA {}; driver {}, up to CUDA {}", cuda_text(f.runtime_cuda),
                  f.driver.empty() ? "of unknown version" : f.driver, cuda_text(f.driver_cuda));
  if (f.driver_cuda == 0 && f.boards.empty())
    out.push_back(
        {"cuda", verdict::warn,
         fmt::format("built with CUDA {}, but there is no NVIDIA driver here", cuda_text(f.runtime_cuda)),
         "none needed for the CPU; for GPUs install a driver of version 580 or later"});
  else if (f.driver_cuda / 1000 < f.runtime_cuda / 1000)
    out.push_back({"cuda", verdict::fail, fact, "install a driver of version 580 or later"});
  else if (f.gpus.empty())
    out.push_back({"cuda", verdict::fail, fmt::format("{}: {}", fact, f.cuda_problem),
                   "check nvidia-smi, CUDA_VISIBLE_DEVICES and, in a container, --gpus all"});
  else
    out.push_back({"cuda", verdict::pass, fact, ""});
}

void judge_gpu(const gpu_facts& g, findings& out) {
  const std::string links = g.nvlinks < 0 ? "" : fmt::format(", {} NVLinks", g.nvlinks);
  const std::string fact = fmt::format("{}, {} SMs, {} of {} free{}", g.name, g.num_sms,
                                       bytes_text(g.memory_free_bytes), bytes_text(g.memory_bytes), links);
  const std::string subject = fmt::format("gpu {}", g.ordinal);
  if (!g.has_kernels)
    out.push_back(
        {subject, verdict::warn, fmt::format("{}; compute capability {}.{}", fact, g.major, g.minor),
         "baton's kernels run on 9.0 (H100, H200, GH200); hide this one with CUDA_VISIBLE_DEVICES"});
  else if (!g.exports_memory)
    out.push_back({subject, verdict::warn, fact + "; cannot share memory between processes",
                   "run all ranks in one process"});
  else if (g.memory_free_bytes < g.memory_bytes / 10)
    out.push_back({subject, verdict::warn, fact, "end what else uses the GPU (nvidia-smi)"});
  else
    out.push_back({subject, verdict::pass, fact, ""});
}

void judge_peers(const std::vector<gpu_facts>& gpus, findings& out) {
  if (gpus.size() < 2) return;
  std::vector<std::string> cut;
  for (std::size_t a = 0; a < gpus.size(); ++a)
    for (std::size_t b = a + 1; b < gpus.size(); ++b)
      if (!gpus[a].reaches.at(b) || !gpus[b].reaches.at(a)) cut.push_back(fmt::format("{}-{}", a, b));
  if (cut.empty())
    out.push_back(
        {"peer access", verdict::pass, fmt::format("all {} GPUs reach each other", gpus.size()), ""});
  else
    out.push_back(
        {"peer access", verdict::fail, fmt::format("missing between GPUs {}", fmt::join(cut, ", ")),
         "choose connected GPUs with CUDA_VISIBLE_DEVICES (nvidia-smi topo -p2p rw); in a virtual machine "
         "pass the NVLink fabric through"});
}

void judge_links(const trials& tried, findings& out) {
  if (!tried.links_problem.empty())
    out.push_back({"links", verdict::fail, tried.links_problem, "free the GPUs of other work and try again"});
  if (!tried.links) return;
  const probe::link_report& l = *tried.links;
  const bool on_gpus = l.between == "GPUs";
  double slowest = l.egress_gb_per_s.front().median, fastest = slowest;
  for (const probe::spread& s : l.egress_gb_per_s) {
    slowest = std::min(slowest, s.median);
    fastest = std::max(fastest, s.median);
  }
  const std::string push = fmt::format("{:.1f} to {:.1f} GB/s from each of {} ({}, {})", slowest, fastest,
                                       l.egress_gb_per_s.size(), l.between, l.method);
  const bool slow = on_gpus && slowest < slow_egress_gb_per_s;
  out.push_back(
      {"push bandwidth", slow ? verdict::warn : verdict::pass, push,
       slow ? "NVLink gives about 350 GB/s: check nvidia-smi nvlink -s and what else is running" : ""});
  const std::string flag =
      fmt::format("{:.2f} us one way, {:.2f} us with release and acquire (at most {:.2f} us)",
                  l.flag_us.median, l.flag_ordered_us.median, l.flag_ordered_us.highest);
  const bool late = on_gpus && l.flag_ordered_us.median > slow_flag_us;
  out.push_back(
      {"flag latency", late ? verdict::warn : verdict::pass, flag,
       late ? "NVLink gives about 1.4 us: check nvidia-smi nvlink -s and what else is running" : ""});
}

void judge_lines(const trials& tried, findings& out) {
  if (!tried.lines || tried.lines->looked_at == 0) return;
  const line_trial& l = *tried.lines;
  if (l.torn.empty())
    out.push_back({"lines", verdict::pass,
                   fmt::format("{} lines of 128 bytes arrived whole, {} of them seen while they changed",
                               l.looked_at, l.seen_changing),
                   ""});
  else
    out.push_back({"lines", verdict::warn, fmt::format("lines of 128 bytes arrive in parts: {}", l.torn),
                   "use --transfer flags (ep_transfer::flags), which does without them; layout per_rank "
                   "refuses lines here"});
}

void judge_choice(const device_facts& f, device_kind chosen, findings& out) {
  const auto usable =
      std::count_if(f.gpus.begin(), f.gpus.end(), [](const gpu_facts& g) { return g.has_kernels; });
  if (chosen == device_kind::cpu)
    out.push_back({"device", verdict::pass,
                   fmt::format("--device auto uses the CPU; up to {} ranks", most_ranks_of_p2p_group), ""});
  else if (usable > 0)
    out.push_back({"device", verdict::pass,
                   fmt::format("--device auto uses CUDA; {} rank{} with a GPU each, up to {} share them",
                               usable, usable == 1 ? "" : "s", most_ranks_of_p2p_group),
                   ""});
  else
    out.push_back({"device", verdict::fail, "BATON_DEVICE=cuda, but no GPU here can be used",
                   "unset BATON_DEVICE, or see the lines above"});
}

}  // namespace

const char* name(verdict v) {
  switch (v) {
    case verdict::pass:
      return "PASS";
    case verdict::warn:
      return "WARN";
    default:
      return "FAIL";
  }
}

std::vector<finding> judge(const device_facts& facts, const trials& tried, device_kind chosen) {
  findings out;
  judge_host(facts.host, out);
  judge_sharing(tried.sharing_problem, out);
  if (facts.built_with_cuda)
    judge_driver(facts, out);
  else
    judge_build_without_cuda(facts, out);
  for (const gpu_facts& g : facts.gpus) judge_gpu(g, out);
  judge_peers(facts.gpus, out);
  judge_links(tried, out);
  judge_lines(tried, out);
  if (facts.built_with_cuda) judge_network(tried.network, facts.gpus, out);
  judge_choice(facts, chosen, out);
  return out;
}

verdict overall(const std::vector<finding>& findings) {
  verdict worst = verdict::pass;
  for (const finding& f : findings) worst = std::max(worst, f.what);
  return worst;
}

}  // namespace baton::cli
