// What the doctor says of ranks beyond a p2p group, of planted machines.
#include "cli/commands/doctor_network.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "tests/cpu/says.hpp"
#include "tests/cpu/temporary_folder.hpp"
#include "tests/support/changed_environment.hpp"

namespace baton::cli {
namespace {

using test::says;

/// A host that has all that ranks of two hosts need.
network_facts ready_host() {
  network_facts n;
  n.nvshmem = "/env/nvidia/nvshmem/lib/libnvshmem_host.so.3";
  n.nvshmem_version = "3.4.5";
  n.module = "/opt/baton/lib/libbaton_nvshmem.so";
  n.module_version = "3.4.5";
  n.ports = {"mlx5_0 port 1: InfiniBand, ACTIVE"};
  n.active_ports = 1;
  n.opens_verbs = n.has_peermem = n.gpus_put = true;
  n.lockable_bytes = std::numeric_limits<std::uint64_t>::max();
  n.heap_variable = "NVSHMEM_MAX_MEMORY_PER_GPU";
  n.most_heap_bytes = std::uint64_t{128} << 30;
  return n;
}

/// Findings, of which all that are not a pass say what to do.
std::vector<finding> told_of(const network_facts& n, const std::vector<gpu_facts>& gpus) {
  std::vector<finding> all;
  judge_network(n, gpus, all);
  for (const finding& f : all)
    EXPECT_EQ(f.what == verdict::pass, f.fix.empty()) << f.subject << ": " << f.fact;
  return all;
}

/// Of two GPUs: which of them export DMA-BUF.
std::vector<finding> told_of(const network_facts& n, bool first = false, bool second = false) {
  return told_of(n, {{.ordinal = 0, .exports_dma_buf = first, .orders_card_writes = true},
                     {.ordinal = 1, .exports_dma_buf = second, .orders_card_writes = true}});
}

TEST(doctor_network, a_host_that_is_ready_passes_with_versions_paths_and_ports) {
  const std::vector<finding> all = told_of(ready_host());
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(overall(all), verdict::pass);
  EXPECT_TRUE(says(all[0].fact, "NVSHMEM 3.4.5 at /env/", "/opt/baton/lib/", "built with 3.4.5"));
  EXPECT_TRUE(says(all[1].fact, "mlx5_0 port 1", "nvidia_peermem"));
}

TEST(doctor_network, a_machine_that_has_nothing_of_it_and_was_not_told_to_is_no_worse_for_it) {
  const std::vector<finding> all = told_of({});
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].what, verdict::pass);
  network_facts of_torch;  // PyTorch brings NVSHMEM along
  of_torch.nvshmem = ready_host().nvshmem;
  of_torch.nvshmem_version = "3.4.5";
  EXPECT_EQ(overall(told_of(of_torch)), verdict::pass);
}

TEST(doctor_network, what_was_told_and_is_not_there_is_a_warning_with_what_the_loader_says) {
  network_facts n;
  n.is_told = true;
  n.nvshmem_problem = "no such file";
  EXPECT_TRUE(says(told_of(n).at(0).fact, "NVSHMEM cannot be opened: no such file"));
  EXPECT_TRUE(says(told_of(n).at(0).fix, "pip install nvidia-nvshmem-cu13", "BATON_NVSHMEM"));
  n = ready_host();
  n.is_told = true;
  n.module = "";
  n.module_problem = "of another build";
  EXPECT_TRUE(says(told_of(n).at(0).fact, "of another build"));
  EXPECT_TRUE(says(told_of(n).at(0).fix, "BATON_NVSHMEM_MODULE"));
}

TEST(doctor_network, an_nvshmem_older_than_the_modules_is_a_warning_and_a_newer_one_is_not) {
  network_facts n = ready_host();
  n.module_version = "3.10.0";
  EXPECT_EQ(told_of(n).at(0).what, verdict::warn);
  EXPECT_TRUE(says(told_of(n).at(0).fix, "'nvidia-nvshmem-cu13>=3.10.0'"));
  n.nvshmem_version = "4.0.0";
  EXPECT_EQ(told_of(n).at(0).what, verdict::pass);
}

TEST(doctor_network, each_thing_that_keeps_network_cards_from_gpus_is_a_warning_of_its_own) {
  const auto fix = [](auto change) {
    network_facts n = ready_host();
    change(n);
    return told_of(n).at(1).fix;
  };
  EXPECT_TRUE(says(fix([](network_facts& n) { n.active_ports = 0; }), "subnet manager"));
  EXPECT_TRUE(says(fix([](network_facts& n) { n.opens_verbs = false; }), "--device /dev/infiniband"));
  EXPECT_TRUE(says(fix([](network_facts& n) { n.has_peermem = false; }), "modprobe nvidia_peermem"));
  EXPECT_TRUE(says(fix([](network_facts& n) { n.lockable_bytes = 64 << 10; }), "ulimit -l unlimited"));
  EXPECT_TRUE(says(fix([](network_facts& n) { n.gpus_put = false; }), "NVSHMEM_IB_ENABLE_IBGDA=1"));
  network_facts n = ready_host();
  n.has_peermem = false;
  EXPECT_TRUE(says(told_of(n, true, true).at(1).fact, "their memory by DMA-BUF"));
  EXPECT_EQ(told_of(n, true, false).at(1).what, verdict::warn) << "the other GPU's is not reached";
}

TEST(doctor_network, a_gpu_that_does_not_order_what_network_cards_write_is_told_of) {
  const finding told =
      told_of(ready_host(), {{.ordinal = 0, .orders_card_writes = true}, {.ordinal = 1}}).at(1);
  EXPECT_EQ(told.what, verdict::warn);
  EXPECT_TRUE(says(told.fact, "mlx5_0 port 1", "GPU 1 does not order what network cards write"));
}

TEST(doctor_network, a_host_without_a_network_of_that_kind_keeps_ranks_to_itself) {
  network_facts n = ready_host();
  n.ports.clear();
  n.active_ports = 0;
  EXPECT_EQ(told_of(n).at(1).what, verdict::pass);
  EXPECT_TRUE(says(told_of(n).at(1).fact, "have to be on this host"));
}

TEST(doctor_network,
     a_heap_is_told_of_beside_what_a_communicator_wants_of_it_and_is_a_warning_if_that_is_more) {
  const std::vector<finding> of_ready = told_of(ready_host());
  EXPECT_EQ(of_ready.at(2).subject, "symmetric heap");
  EXPECT_TRUE(says(of_ready.at(2).fact, "grows to 128 GiB a GPU (NVSHMEM_MAX_MEMORY_PER_GPU)",
                   "16 ranks wants 112 MiB of it with 128 tokens each, 3.51 GiB with 4096"));
  network_facts n = ready_host();
  n.heap_grows = false;
  n.heap_variable = "NVSHMEM_SYMMETRIC_SIZE";
  n.most_heap_bytes = std::uint64_t{1} << 30;
  EXPECT_EQ(told_of(n).at(2).what, verdict::pass);
  EXPECT_TRUE(says(told_of(n).at(2).fact, "1.00 GiB a GPU, taken at once", "NVSHMEM_DISABLE_CUDA_VMM"));
  for (const std::uint64_t little : {std::uint64_t{0}, std::uint64_t{64} << 20}) {
    n.most_heap_bytes = little;
    EXPECT_EQ(told_of(n).at(2).what, verdict::warn) << little;
    EXPECT_TRUE(says(told_of(n).at(2).fix, "NVSHMEM_SYMMETRIC_SIZE=4G", "unset NVSHMEM_DISABLE_CUDA_VMM"));
  }
  EXPECT_TRUE(says(told_of(n).at(2).fact, "64.0 MiB a GPU"));
}

/// As an environment says that has these variables alone.
network_facts facts_with(const std::vector<std::pair<const char*, const char*>>& variables) {
  test::changed_environment::variables all;
  for (const char* name :
       {"BATON_NVSHMEM", "BATON_NVSHMEM_MODULE", "NVSHMEM_IB_ENABLE_IBGDA", "NVSHMEM_SYMMETRIC_SIZE",
        "NVSHMEM_MAX_MEMORY_PER_GPU", "NVSHMEM_DISABLE_CUDA_VMM"})
    all.emplace_back(name, std::nullopt);
  for (const auto& [name, value] : variables) all.emplace_back(name, value);
  const test::changed_environment now{all};
  return read_network_facts("/nonexistent");
}

TEST(network_facts, the_heap_and_who_puts_are_what_nvshmem_makes_of_its_variables) {
  const auto most = [](const std::vector<std::pair<const char*, const char*>>& variables) {
    return facts_with(variables).most_heap_bytes;
  };
  constexpr std::uint64_t mib = std::uint64_t{1} << 20, gib = mib << 10;
  EXPECT_TRUE(facts_with({}).heap_grows);
  EXPECT_FALSE(facts_with({}).gpus_put);
  EXPECT_TRUE(facts_with({{"NVSHMEM_IB_ENABLE_IBGDA", "1"}}).gpus_put);
  EXPECT_EQ(most({}), 128 * gib);
  EXPECT_EQ(most({{"NVSHMEM_SYMMETRIC_SIZE", "256M"}}), 128 * gib) << "of no effect on a heap that grows";
  EXPECT_EQ(most({{"NVSHMEM_MAX_MEMORY_PER_GPU", "32g"}}), 32 * gib);
  for (const char* no : {"0", "no", "false"})
    EXPECT_TRUE(facts_with({{"NVSHMEM_DISABLE_CUDA_VMM", no}}).heap_grows) << no;
  EXPECT_FALSE(facts_with({{"NVSHMEM_DISABLE_CUDA_VMM", ""}}).heap_grows) << "set is set";
  EXPECT_EQ(most({{"NVSHMEM_DISABLE_CUDA_VMM", "1"}}), gib);
  const auto fixed = [&](const char* size) {
    return most({{"NVSHMEM_DISABLE_CUDA_VMM", "1"}, {"NVSHMEM_SYMMETRIC_SIZE", size}});
  };
  EXPECT_EQ(fixed("1048576"), mib);
  EXPECT_EQ(fixed("256M"), 256 * mib);
  EXPECT_EQ(fixed(".5gk"), gib / 2);
  EXPECT_EQ(fixed("3.1M"), 3250586u);
  for (const char* none : {"", "G", "-1", "12q", "nan", "1e300", "inf"}) EXPECT_EQ(fixed(none), 0u) << none;
}

TEST(network_facts, ports_devices_and_modules_are_read_where_linux_has_them) {
  const test::temporary_folder folder;
  const auto plant = [&](const std::string& file, const std::string& text) {
    std::filesystem::create_directories((folder / file).parent_path());
    test::write_file(folder / file, text);
  };
  const std::string root = (folder / "").string();
  EXPECT_EQ(read_network_facts(root).ports, std::vector<std::string>{});
  for (const char* device : {"mlx5_0", "mlx5_1"})
    plant(std::string{"sys/class/infiniband/"} + device + "/ports/1/link_layer", "InfiniBand\n");
  plant("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  plant("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
  network_facts n = read_network_facts(root);
  EXPECT_EQ(n.ports, (std::vector<std::string>{"mlx5_0 port 1: InfiniBand, ACTIVE",
                                               "mlx5_1 port 1: InfiniBand, DOWN"}));
  EXPECT_EQ(n.active_ports, 1);
  EXPECT_FALSE(n.opens_verbs);
  EXPECT_FALSE(n.has_peermem);
  plant("dev/infiniband/uverbs0", "");
  plant("sys/module/nvidia_peermem/version", "580\n");
  n = read_network_facts(root);
  EXPECT_TRUE(n.opens_verbs);
  EXPECT_TRUE(n.has_peermem);
}

TEST(network_facts, who_says_where_nvshmem_or_its_module_is_wants_them) {
  const auto is_told = [](const char* name, const char* value) {
    return facts_with({{name, value}}).is_told;
  };
  for (const char* name : {"BATON_NVSHMEM", "BATON_NVSHMEM_MODULE"}) {
    EXPECT_TRUE(is_told(name, "/nowhere")) << name;
    EXPECT_FALSE(is_told(name, "")) << name;
  }
}

}  // namespace
}  // namespace baton::cli
