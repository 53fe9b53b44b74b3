#include "cli/commands/doctor_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "base/math.hpp"
#include "baton/expert_parallel.hpp"
#include "cli/view/text.hpp"

namespace baton::cli {
namespace {

constexpr const char* install_nvshmem =
    "pip install nvidia-nvshmem-cu13, and set BATON_NVSHMEM to its folder nvidia/nvshmem in site-packages";

/// Of "3.4.5".
std::array<int, 3> numbers_of(const std::string& version) {
  std::array<int, 3> numbers{};
  const char *at = version.data(), *const end = at + version.size();
  for (int& number : numbers) {
    at = std::from_chars(at, end, number).ptr;
    at += at != end ? 1 : 0;
  }
  return numbers;
}

/// Whether ranks beyond a group can be had here.
bool judge_nvshmem(const network_facts& n, std::vector<finding>& out) {
  const auto tell = [&](verdict what, const std::string& fact, const std::string& fix) {
    out.push_back({"beyond the group", what, fact, fix});
  };
  if (n.nvshmem.empty() && !n.is_told)
    tell(verdict::pass, "NVSHMEM is not here, which only ranks beyond a p2p group (p2p_group_size) need", "");
  else if (n.nvshmem.empty())
    tell(verdict::warn, fmt::format("NVSHMEM cannot be opened: {}", n.nvshmem_problem), install_nvshmem);
  else if (n.module.empty() && !n.is_told)
    tell(verdict::pass,
         fmt::format("NVSHMEM {} at {}, and no libbaton_nvshmem.so, which ranks beyond a p2p group need",
                     n.nvshmem_version, n.nvshmem),
         "");
  else if (n.module.empty())
    tell(verdict::warn,
         fmt::format("NVSHMEM {}, but baton's module for it cannot be used: {}", n.nvshmem_version,
                     n.module_problem),
         "build baton where NVSHMEM is (cmake says whether it found it), install it, and set "
         "BATON_NVSHMEM_MODULE to the path of its libbaton_nvshmem.so");
  else if (numbers_of(n.nvshmem_version) < numbers_of(n.module_version))
    tell(verdict::warn,
         fmt::format("NVSHMEM {} at {} is older than {}, with which {} was built", n.nvshmem_version,
                     n.nvshmem, n.module_version, n.module),
         fmt::format("pip install 'nvidia-nvshmem-cu13>={}'", n.module_version));
  else
    tell(verdict::pass,
         fmt::format("NVSHMEM {} at {}; {}, built with {}", n.nvshmem_version, n.nvshmem, n.module,
                     n.module_version),
         "");
  return !n.nvshmem.empty() && !n.module.empty();
}

/// Of two hosts of eight GPUs.
std::uint64_t window_bytes(int tokens) {
  ep_config c;
  c.num_experts = 256;
  c.top_k = 8;
  c.hidden = 7168;
  c.num_max_tokens_per_rank = tokens;
  c.p2p_group_size = 8;
  return workspace_bytes(c, 16).window;
}

/// Whether windows have room in NVSHMEM's heap.
void judge_heap(const network_facts& n, std::vector<finding>& out) {
  const auto tell = [&](verdict what, const std::string& fact, const std::string& fix) {
    out.push_back({"symmetric heap", what, fact, fix});
  };
  const std::uint64_t few = window_bytes(128), many = window_bytes(4096);
  const std::string wants = fmt::format(
      "a communicator of 16 ranks wants {} of it with 128 tokens each, {} with 4096 (hidden 7168, "
      "top 8)",
      bytes_text(few), bytes_text(many));
  const std::string fix = fmt::format(
      "{}={}G or more, the same on all ranks{}", n.heap_variable, ceil_div(many, std::uint64_t{1} << 30),
      n.heap_grows ? "" : "; or unset NVSHMEM_DISABLE_CUDA_VMM, so that it grows with what is asked of it");
  if (n.most_heap_bytes == 0)
    return tell(verdict::warn, fmt::format("{} says no size that NVSHMEM knows", n.heap_variable), fix);
  const std::string size = n.heap_grows
                               ? fmt::format("grows to {} a GPU", bytes_text(n.most_heap_bytes))
                               : fmt::format("{} a GPU, taken at once, as NVSHMEM_DISABLE_CUDA_VMM is set",
                                             bytes_text(n.most_heap_bytes));
  const bool is_little = n.most_heap_bytes < few;
  tell(is_little ? verdict::warn : verdict::pass, fmt::format("{} ({}); {}", size, n.heap_variable, wants),
       is_little ? fix : "");
}

void judge_cards(const network_facts& n, const std::vector<gpu_facts>& gpus, std::vector<finding>& out) {
  const bool by_dma_buf = !gpus.empty() && std::all_of(gpus.begin(), gpus.end(),
                                                       [](const gpu_facts& g) { return g.exports_dma_buf; });
  const std::string ports = fmt::format("{}", fmt::join(n.ports, "; "));
  const auto tell = [&](verdict what, const std::string& fact, const std::string& fix) {
    out.push_back({"network", what, fact, fix});
  };
  if (n.ports.empty())
    tell(verdict::pass, "no InfiniBand or RoCE: ranks beyond a p2p group have to be on this host", "");
  else if (n.active_ports == 0)
    tell(verdict::warn, ports,
         "no port is active: check cables, and for InfiniBand the subnet manager (ibstat)");
  else if (!n.opens_verbs)
    tell(verdict::warn, fmt::format("{}; this process cannot open /dev/infiniband/uverbs*", ports),
         "in a container give it --device /dev/infiniband; else check the rights of these files");
  else if (!n.has_peermem && !by_dma_buf)
    tell(verdict::warn,
         fmt::format("{}; network cards do not reach the memory of GPUs: no nvidia_peermem, no DMA-BUF",
                     ports),
         "modprobe nvidia_peermem, or NVIDIA's open kernel modules on Linux 5.12 or later, which have "
         "DMA-BUF");
  else if (const auto g = std::ranges::find(gpus, false, &gpu_facts::orders_card_writes); g != gpus.end())
    tell(verdict::warn,
         fmt::format("{}; GPU {} does not order what network cards write, so that a word may be seen before "
                     "the tokens that it tells of",
                     ports, g->ordinal),
         "keep all ranks on one host, or use GPUs whose CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING "
         "is 100 or more");
  else if (n.lockable_bytes != std::numeric_limits<std::uint64_t>::max())
    tell(verdict::warn,
         fmt::format("{}; only {} may be locked in memory", ports, bytes_text(n.lockable_bytes)),
         "ulimit -l unlimited (in a container --ulimit memlock=-1)");
  else if (!n.gpus_put)
    tell(verdict::warn,
         fmt::format("{}; a thread of NVSHMEM's puts for the GPUs, and ends its process where a peer is lost",
                     ports),
         "NVSHMEM_IB_ENABLE_IBGDA=1 on all ranks, so that GPUs put by themselves");
  else
    tell(verdict::pass,
         fmt::format("{}; GPUs put by themselves, their memory by {}", ports,
                     n.has_peermem ? "nvidia_peermem" : "DMA-BUF"),
         "");
}

}  // namespace

void judge_network(const network_facts& n, const std::vector<gpu_facts>& gpus, std::vector<finding>& out) {
  if (!judge_nvshmem(n, out)) return;
  judge_cards(n, gpus, out);
  judge_heap(n, out);
}

}  // namespace baton::cli
