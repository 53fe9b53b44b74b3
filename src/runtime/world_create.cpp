// How a world comes to be: check the arguments, compare what the ranks say of themselves, set up the device.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "baton/error.hpp"
#include "baton/world.hpp"
#include "bootstrap/launch_environment.hpp"
#include "bootstrap/process_rendezvous.hpp"
#include "bootstrap/thread_rendezvous.hpp"
#include "bootstrap/unix_socket.hpp"
#include "exec/build_id.hpp"
#include "runtime/on_cuda.hpp"
#include "runtime/world_state.hpp"
#include "sim/machine.hpp"

namespace baton {
namespace {

/// Kernel-visible memory of a CPU rank.
struct host_reports {
  stuck_record record{};
  alignas(64) std::uint32_t abort = 0;
  wait_log log{};
};

/// What a rank tells about itself before anything else.
struct rank_info {
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::int32_t device = 0;
  std::int32_t pid = 0;
  std::uint64_t process = 0;  // random, the same for all threads of a process
  std::uint64_t machine = 0;
  std::uint64_t host = 0;
  std::uint64_t build = 0;
  std::int64_t deadline_ms = 0;
};

/// Process numbers repeat in containers, and a fork repeats everything else: both together do not.
std::uint64_t process_token() {
  static const std::uint64_t drawn = bootstrap::random_bits();
  return drawn;
}

std::uint64_t machine_token() {
  std::ifstream in{"/proc/sys/kernel/random/boot_id"};
  std::string id;
  in >> id;
  if (id.empty()) {  // or all machines that hide it would be one
    std::array<char, 256> name{};
    if (::gethostname(name.data(), name.size() - 1) == 0) id = name.data();
  }
  return std::hash<std::string>{}(id);
}

/// BATON_HOST, else the machine: ranks with the same reach each other's memory with stores.
std::uint64_t host_token() {
  const char* const told = std::getenv("BATON_HOST");
  return told != nullptr && *told != '\0' ? std::hash<std::string>{}(told) : machine_token();
}

/// 0 0 1 1 of hosts a a b b.
std::vector<int> numbered_hosts(const std::vector<rank_info>& all) {
  std::vector<std::uint64_t> known;
  std::vector<int> numbers;
  for (const rank_info& p : all) {
    const auto at = std::find(known.begin(), known.end(), p.host);
    numbers.push_back(static_cast<int>(at - known.begin()));
    if (at == known.end()) known.push_back(p.host);
  }
  return numbers;
}

bool is_one_machine(const std::vector<rank_info>& all) {
  return std::all_of(all.begin(), all.end(), [&](const rank_info& p) { return p.machine == all[0].machine; });
}

const char* name(device_kind device) {
  return device == device_kind::cuda ? "cuda" : "cpu";
}

/// With room to spare: a callback of more ranks than config says writes more than it was asked for.
std::vector<rank_info> gather_infos(const bootstrap::group& g, const rank_info& own) {
  std::vector<rank_info> all(bootstrap::most_ranks);
  bootstrap::gather_bytes(g, &own, all.data(), sizeof own);
  return all;
}

void compare_sizes(const std::vector<rank_info>& all, std::size_t size) {
  for (std::size_t r = 0; r < size; ++r)
    if (all[r].size != all.front().size)
      throw transport_error{
          fmt::format("ranks disagree: world_config::size is {} on rank 0 and {} on rank {}",
                      all.front().size, all[r].size, r)};
  const auto more = std::find_if(all.rbegin(), all.rend(), [](const rank_info& i) { return i.size != 0; });
  if (const auto brought = static_cast<std::size_t>(all.rend() - more); brought > size)
    throw transport_error{
        fmt::format("all_gather brings the bytes of {} ranks, but world_config::size is {} on all of them",
                    brought, size)};
}

void compare(const std::vector<rank_info>& all) {
  const rank_info& first = all.front();
  for (std::size_t r = 0; r < all.size(); ++r) {
    const rank_info& p = all[r];
    if (p.rank != static_cast<int>(r))
      throw transport_error{fmt::format(
          "all_gather is not in rank order: the bytes of rank {} lie where those of rank {} belong", p.rank,
          r)};
    if (p.build != first.build)
      throw transport_error{fmt::format(
          "ranks disagree: rank {} runs another build of baton than rank 0; install the same on all hosts",
          r)};
    if (p.deadline_ms != first.deadline_ms)
      throw transport_error{fmt::format(
          "ranks disagree: waits end after {} ms on rank 0 and {} ms on rank {}, and who gives up "
          "early would be taken for lost; set BATON_DEADLINE_MS, or world_config::deadline, to "
          "the same on all",
          first.deadline_ms, p.deadline_ms, r)};
    if (p.device != first.device)
      throw transport_error{fmt::format(
          "ranks disagree: world_config::device is {} on rank 0 and {} on rank {}",
          name(static_cast<device_kind>(first.device)), name(static_cast<device_kind>(p.device)), r)};
    if (p.machine != first.machine && first.device == static_cast<int>(device_kind::cpu))
      throw transport_error{fmt::format(
          "ranks 0 and {} run on different machines, and ranks of the CPU share memory; start all "
          "ranks of a world on one, or use device_kind::cuda",
          r)};
  }
}

void validate(const world_config& c) {
  if (c.size < 1 || c.size > bootstrap::most_ranks)
    throw invalid_argument{
        fmt::format("world_config::size: {}, expected 1 to {}", c.size, bootstrap::most_ranks)};
  if (c.rank < 0 || c.rank >= c.size)
    throw invalid_argument{
        fmt::format("world_config::rank: {}, expected 0 to size - 1 = {}", c.rank, c.size - 1)};
  if (c.size > 1 && !c.all_gather)
    throw invalid_argument{
        fmt::format("world_config::all_gather is empty, but size is {}: pass a callback, or use "
                    "world::from_environment or world::local",
                    c.size)};
  if (c.device != device_kind::cpu && c.device != device_kind::cuda)
    throw invalid_argument{
        fmt::format("world_config::device: {}, expected device_kind::cpu or device_kind::cuda",
                    static_cast<int>(c.device))};
  if (c.deadline.count() < 0)
    throw invalid_argument{
        fmt::format("world_config::deadline: {} ms, expected 0 (none) or more", c.deadline.count())};
}

void set_up_on_cpu(detail::world_state& s, std::shared_ptr<sim::machine> machine) {
  auto reports = std::make_shared<host_reports>();
  s.reports = {&reports->record, &reports->record, &reports->abort, &reports->log};
  s.owned = std::move(reports);
  s.machine = std::move(machine);
}

/// Other threads or processes may still enqueue what a wait needs: its deadline is one of real time.
std::shared_ptr<sim::machine> machine_in_real_time(int size) {
  sim::options options;
  options.virtual_clock = false;
  return std::make_shared<sim::machine>(size, options);
}

/// Not checked yet.
std::shared_ptr<detail::world_state> state_of(const world_config& c) {
  auto s = std::make_shared<detail::world_state>();
  s->rank = c.rank;
  s->size = c.size;
  s->device = c.device;
  s->all_gather = c.all_gather;
  return s;
}

void check_config(const world_config& c, detail::world_state& s) {
  validate(c);
  s.deadline = std::min(bootstrap::deadline_from_environment(c.deadline), bootstrap::longest_deadline);
}

/// What check_config() throws, for when the others have come to hear of it.
std::exception_ptr problem_of(const world_config& c, detail::world_state& s) try {
  check_config(c, s);
  return nullptr;
} catch (const error&) {
  return std::current_exception();
}

int wanted_ordinal(const world_config& c) {
  if (c.device_index >= 0) return c.device_index;
  return on_cuda::default_ordinal(c.local_rank >= 0 ? c.local_rank : c.rank);
}

void set_up_on_cuda(detail::world_state& s, const world_config& c) {
  const bootstrap::group g = s.peers();
  on_cuda::device_identity own;
  bootstrap::together(g, [&] { own = on_cuda::identify(wanted_ordinal(c)); });
  const std::vector<on_cuda::device_identity> all = bootstrap::gather(g, own);
  bootstrap::together(g, [&] { on_cuda::set_up(s, all); });
}

}  // namespace

world world::create(world_config config) {
  const std::shared_ptr<detail::world_state> s = state_of(config);
  const std::exception_ptr problem = problem_of(config, *s);
  if (problem && !config.all_gather) std::rethrow_exception(problem);
  const bootstrap::group g = s->peers();
  const rank_info own{s->rank,      s->size,         static_cast<std::int32_t>(s->device),
                      ::getpid(),   process_token(), machine_token(),
                      host_token(), build_id(),      s->deadline.count()};
  std::vector<rank_info> all = gather_infos(g, own);
  if (problem && (s->size < 1 || s->size > bootstrap::most_ranks)) std::rethrow_exception(problem);
  compare_sizes(all, static_cast<std::size_t>(s->size));  // or else no two of them can gather anything
  all.resize(static_cast<std::size_t>(s->size));
  bootstrap::together(g, [&] {
    if (problem) std::rethrow_exception(problem);
  });
  compare(all);
  s->hosts = numbered_hosts(all);
  s->is_of_one_machine = is_one_machine(all);
  s->in_process = true;
  for (const rank_info& p : all)
    s->in_process = s->in_process && p.pid == own.pid && p.process == own.process;
  if (s->device == device_kind::cuda)
    set_up_on_cuda(*s, config);
  else
    bootstrap::together(g, [&] { set_up_on_cpu(*s, machine_in_real_time(s->size)); });
  return world{s};
}

world world::from_environment(device_kind device) {
  const bootstrap::launch_environment env = bootstrap::read_launch_environment();
  world_config c;
  c.rank = env.ranks.rank;
  c.size = env.ranks.size;
  c.local_rank = env.local_rank;
  c.device = device;
  if (c.size > 1) {
    auto rendezvous = std::make_shared<bootstrap::process_rendezvous>(env.ranks);
    c.all_gather = [rendezvous](const void* mine, void* all, std::size_t bytes) {
      rendezvous->all_gather(mine, all, bytes);
    };
  }
  return create(std::move(c));
}

std::vector<world> world::local(int size, device_kind device) {
  std::vector<std::shared_ptr<detail::world_state>> states;
  world_config c;
  c.size = size;
  c.device = device;
  c.all_gather = [](const void*, void*, std::size_t) {};
  std::vector<on_cuda::device_identity> devices;
  std::shared_ptr<sim::machine> machine;
  for (c.rank = 0; c.rank == 0 || c.rank < size; ++c.rank) {
    states.push_back(state_of(c));
    check_config(c, *states.back());
    if (device == device_kind::cuda) devices.push_back(on_cuda::identify(on_cuda::default_ordinal(c.rank)));
  }
  if (device == device_kind::cpu) machine = machine_in_real_time(size);
  const auto rendezvous = std::make_shared<bootstrap::thread_rendezvous>(size, states.front()->deadline);
  std::vector<world> worlds;
  for (const auto& s : states) {
    s->in_process = true;
    s->hosts.assign(static_cast<std::size_t>(size), 0);
    s->rendezvous = rendezvous;
    s->all_gather = bootstrap::all_gather_of(rendezvous, s->rank);
    if (device == device_kind::cuda)
      on_cuda::set_up(*s, devices);
    else
      set_up_on_cpu(*s, machine);
    worlds.emplace_back(s);
  }
  return worlds;
}

}  // namespace baton
