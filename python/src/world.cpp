// Worlds: how ranks find each other from Python.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "baton/error.hpp"
#include "baton/expert_parallel.hpp"
#include "baton/give_up.hpp"
#include "interrupt.hpp"
#include "ranks.hpp"

namespace baton::python {
namespace {

device_kind device_of(const std::string& name) {
  if (name == "cpu") return device_kind::cpu;
  if (name == "cuda") return device_kind::cuda;
  if (name == "auto") return auto_device();
  throw invalid_argument{"device: '" + name + "', expected 'cpu', 'cuda', 'cuda:N' or 'auto'"};
}

py_world alone_with_its_arrays(world handle) {
  auto kept = std::make_shared<kept_arrays>(handle.size());
  return {std::move(handle), std::move(kept)};
}

/// That an exchange can have, as the library says.
int most_ranks() {
  static const int most = [] {
    constexpr ep_config any{
        .num_experts = 1024, .top_k = 1, .hidden = 128, .num_max_tokens_per_rank = 1, .p2p_group_size = 1};
    int n = 1;
    while (why_not(any, n + 1).empty()) ++n;
    return n;
  }();
  return most;
}

std::vector<py_world> local(int num_ranks, const std::string& device) {
  const device_kind kind = device_of(device);
  if (num_ranks < 1 || num_ranks > most_ranks())
    throw invalid_argument{"num_ranks: " + std::to_string(num_ranks) + ", expected 1 to " +
                           std::to_string(most_ranks()) +
                           ": ranks are the GPUs of one machine, or stand for them"};
  std::vector<world> handles;
  {
    const nb::gil_scoped_release without_lock;
    handles = world::local(num_ranks, kind);
  }
  const auto kept = std::make_shared<kept_arrays>(num_ranks);
  std::vector<py_world> worlds;
  for (world& handle : handles) worlds.emplace_back(std::move(handle), kept);
  return worlds;
}

py_world from_environment(const std::string& device) {
  const device_kind kind = device_of(device);
  return where_ranks_meet([&] { return alone_with_its_arrays(world::from_environment(kind)); });
}

/// A callable that takes this rank's bytes and returns those of all ranks, in order.
void gather(const nb::object& callable, int num_ranks, const void* mine, void* all, std::size_t bytes) {
  const nb::gil_scoped_acquire lock;
  const nb::object given = callable(nb::bytes(mine, bytes));
  const auto of_ranks = nb::cast<std::vector<nb::bytes>>(nb::list(given));
  if (of_ranks.size() != static_cast<std::size_t>(num_ranks))
    throw transport_error{"all_gather: returned " + std::to_string(of_ranks.size()) +
                          " entries, expected the bytes of each of " + std::to_string(num_ranks) + " ranks"};
  auto* at = static_cast<std::byte*>(all);
  for (const nb::bytes& one : of_ranks) {
    if (one.size() != bytes)
      throw transport_error{"all_gather: returned an entry of " + std::to_string(one.size()) +
                            " bytes, expected " + std::to_string(bytes) + ", as many as it was given"};
    std::memcpy(at, one.c_str(), bytes);
    at += bytes;
  }
}

/// Owns a Python object from places that do not hold Python's lock.
std::shared_ptr<nb::object> shared_object(nb::object given) {
  return {new nb::object{std::move(given)}, [](nb::object* held) {
            if (Py_IsInitialized() == 0) return;
            const nb::gil_scoped_acquire lock;
            delete held;
          }};
}

/// `place`: rank and size.
py_world from_all_gather(nb::object all_gather, std::pair<int, int> place, const std::string& device,
                         int device_index, int local_rank, double deadline) {
  const auto [rank, size] = place;
  world_config config{
      .rank = rank,
      .size = size,
      .device = device_of(device),
      .device_index = device_index,
      .local_rank = local_rank,
      .all_gather = {},
      .deadline = std::chrono::milliseconds{static_cast<std::int64_t>(std::ceil(deadline * 1000))}};
  if (!all_gather.is_none())
    config.all_gather = [callable = shared_object(std::move(all_gather)), size = size](
                            const void* mine, void* all, std::size_t bytes) {
      gather(*callable, size, mine, all, bytes);
    };
  return where_ranks_meet([&] { return alone_with_its_arrays(world::create(std::move(config))); });
}

nb::dict wait_times(const py_world& self) {
  const world& rank = self.get();
  peer_waits waits;
  {
    const nb::gil_scoped_release without_lock;
    waits = rank.wait_times();
  }
  nb::list peers;
  for (const peer_wait& peer : waits.peers) {
    nb::dict one;
    one["ns"] = peer.ns;
    one["waits"] = peer.waits;
    peers.append(one);
  }
  nb::dict all;
  all["rank"] = waits.rank;
  all["peers"] = peers;
  all["span_ns"] = waits.span.count();
  return all;
}

}  // namespace

pid_t py_world::current_process() {
  return ::getpid();
}

int py_world::num_forks() {
  static int count = 0;
  static const int is_told = pthread_atfork(nullptr, nullptr, [] { ++count; });
  return is_told == 0 ? count : 0;
}

const world& py_world::get() const {
  if (num_forks() != made_after_)
    throw invalid_argument{"world: made by process " + std::to_string(made_by_) + " and used in its fork " +
                           std::to_string(current_process()) +
                           "; make worlds after forking, or start processes with the method 'spawn'"};
  return handle_;
}

void py_world::synchronize(stream_ref stream) const {
  const world& rank = get();
  std::vector<kept_array>& mine = kept_->of(rank.rank());
  std::vector<kept_array> used = std::exchange(mine, {});
  try {
    const interruptible_wait watched{rank};
    watched.raise_what_came_before();
    const nb::gil_scoped_release without_lock;
    rank.synchronize(stream);
  } catch (const stuck& error) {
    mine.insert(mine.end(), std::make_move_iterator(used.begin()), std::make_move_iterator(used.end()));
    if (was_interrupted()) say_and_interrupt(error);
    throw;
  } catch (...) {  // what is queued may still be read
    mine.insert(mine.end(), std::make_move_iterator(used.begin()), std::make_move_iterator(used.end()));
    throw;
  }
}

stream_ref py_world::stream_of(std::uintptr_t handle) const {
  get();
  if (handle != 0 && is_cpu())
    throw invalid_argument{"stream: " + std::to_string(handle) +
                           ", expected None: a CPU rank has no streams in Python"};
  return {reinterpret_cast<void*>(handle)};
}

void bind_world(nb::module_& module) {
  nb::class_<py_world>(module, "World")
      .def_prop_ro("rank", [](const py_world& self) { return self.get().rank(); })
      .def_prop_ro("size", [](const py_world& self) { return self.get().size(); })
      .def_prop_ro("device", [](const py_world& self) { return self.is_cpu() ? "cpu" : "cuda"; })
      .def_prop_ro("device_index", [](const py_world& self) { return self.get().device_index(); })
      .def_prop_ro(
          "deadline",
          [](const py_world& self) { return std::chrono::duration<double>(self.get().deadline()).count(); })
      .def_prop_ro("hosts", [](const py_world& self) { return nb::tuple(nb::cast(self.get().hosts())); })
      .def(
          "synchronize",
          [](const py_world& self, std::uintptr_t stream) { self.synchronize(self.stream_of(stream)); },
          nb::arg("stream"))
      .def("give_up",
           [](const py_world& self) {
             const world& rank = self.get();
             const nb::gil_scoped_release without_lock;
             return baton::give_up(rank);
           })
      .def_static("give_up_meetings", &end_meetings)
      .def("wait_times", &wait_times)
      .def("reset_wait_times", [](const py_world& self) { self.get().reset_wait_times(); });
  module.def("num_meetings_given_up", &num_meetings_given_up);
  module.def("local", &local, nb::arg("num_ranks"), nb::arg("device"));
  module.def("from_environment", &from_environment, nb::arg("device"));
  module.def("from_all_gather", &from_all_gather, nb::arg("all_gather").none(), nb::arg("place"),
             nb::arg("device"), nb::arg("device_index"), nb::arg("local_rank"), nb::arg("deadline"));
}

}  // namespace baton::python
