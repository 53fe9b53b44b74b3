// The methods of a communicator, as baton.ExpertParallel calls them.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "communicator.hpp"
#include "config.hpp"
#include "interrupt.hpp"
#include "quick.hpp"

namespace baton::python {
namespace {

std::unique_ptr<communicator> create(const py_world& rank, const nb::dict& config) {
  const ep_config wanted = config_of(config);
  const world& handle = rank.get();
  expert_parallel made = where_ranks_meet([&] { return expert_parallel::create(handle, wanted); });
  return std::make_unique<communicator>(rank, std::move(made));
}

std::vector<std::unique_ptr<communicator>> create_all(const std::vector<py_world>& ranks,
                                                      const nb::dict& config) {
  const ep_config wanted = config_of(config);
  std::vector<world> handles;
  for (const py_world& rank : ranks) handles.push_back(rank.get());
  std::vector<expert_parallel> made =
      where_ranks_meet([&] { return expert_parallel::create_all(handles, wanted); });
  std::vector<std::unique_ptr<communicator>> all;
  for (std::size_t r = 0; r < ranks.size(); ++r)
    all.push_back(std::make_unique<communicator>(ranks[r], std::move(made[r])));
  return all;
}

std::string dump_state(const communicator& self) {
  self.rank().get();
  const nb::gil_scoped_release without_lock;
  return to_json(self.moe().dump_state());
}

received dispatch_wait(nb::handle self, int slot, std::uintptr_t stream) {
  return received_by(nb::borrow(self), nb::cast<communicator&>(self).dispatch_wait(slot, stream));
}

// `given` are the arrays of a call, in the order in which baton.ExpertParallel gives them.

dispatch_arguments arguments_of(const nb::tuple& given, int slot, int num_sms) {
  return {given[0], given[1], given[2], given[3], given[4], slot, num_sms};
}

void dispatch_async(communicator& self, const nb::tuple& given, int slot, int num_sms,
                    std::uintptr_t stream) {
  self.dispatch_async(arguments_of(given, slot, num_sms), stream);
}

void combine_async(communicator& self, const nb::tuple& given, int slot, int num_sms, int num_rows,
                   std::uintptr_t stream) {
  self.combine_async({given[0], given[1], given[2], {}, slot, num_sms, num_rows}, stream);
}

void combine_wait(communicator& self, const nb::tuple& given, int slot, std::uintptr_t stream) {
  self.combine_wait(given[0], given[1], slot, stream);
}

void combine(communicator& self, const nb::tuple& given, int slot, int num_sms, int num_rows,
             std::uintptr_t stream) {
  self.combine({given[0], given[1], given[2], given[3], slot, num_sms, num_rows}, stream);
}

int num_tokens(communicator& self, int slot) {
  return self.round(slot).num_tokens;
}

std::pair<int, int> local_experts(const communicator& self) {
  const expert_range own = self.moe().local_experts();
  return {own.first, own.count};
}

std::string reason_against(const nb::dict& config, int num_ranks) {
  return why_not(config_of(config), num_ranks);
}

std::pair<std::size_t, std::size_t> bytes_of(const nb::dict& config, int num_ranks) {
  const workspace_size size = workspace_bytes(config_of(config), num_ranks);
  return {size.window, size.local};
}

received dispatch(nb::handle self, const nb::tuple& given, int slot, int num_sms, std::uintptr_t stream) {
  auto& its = nb::cast<communicator&>(self);
  return received_by(nb::borrow(self), its.dispatch(arguments_of(given, slot, num_sms), stream));
}

/// `work` on each of `ranks`, which are one, or all of a world::local; those together on a thread each.
void on_each(const std::vector<communicator*>& ranks, const std::function<void(communicator&)>& work) {
  std::vector<world> handles;
  for (const communicator* one : ranks) handles.push_back(one->rank().get());
  where_ranks_meet([&] {
    if (ranks.size() == 1)
      work(*ranks.front());
    else
      on_every_rank(handles, [&](int rank) { work(*ranks[static_cast<std::size_t>(rank)]); });
  });
  for (communicator* one : ranks) one->forget_rounds();
}

void release(const std::vector<communicator*>& ranks) {
  for (const communicator* one : ranks) one->may_release();
  on_each(ranks, [](communicator& one) { one.release(); });
}

void reacquire(const std::vector<communicator*>& ranks) {
  on_each(ranks, [](communicator& one) { one.reacquire(); });
}

void set_members(const std::vector<communicator*>& ranks, std::uint64_t epoch, std::uint32_t active_ranks) {
  const ep_membership members{.epoch = epoch, .active_ranks = active_ranks};
  on_each(ranks, [&](communicator& one) {
    if (ranks.size() == 1 || members.has(one.moe().ranks().rank())) one.set_members(members);
  });
}

/// Of what a slot receives, whatever comes: rows, rows of tokens, and bytes of one of these.
std::tuple<int, int, int> room(const communicator& self) {
  const received_tokens of = self.moe().room();
  return {of.max_rows, of.max_token_rows, of.row_bytes};
}

void check_dispatch(const communicator& self, const nb::tuple& given, int slot, int num_sms) {
  self.check_arguments(arguments_of(given, slot, num_sms));
}

/// `given`: as of combine, without `out` where it has three.
void check_combine(communicator& self, const nb::tuple& given, int slot, int num_sms, int num_rows) {
  const nb::handle out = given.size() > 3 ? nb::handle{given[3]} : nb::handle{};
  self.check_arguments(combine_arguments{given[0], given[1], given[2], out, slot, num_sms, num_rows});
}

std::pair<std::uint64_t, std::uint32_t> members(const communicator& self) {
  const ep_membership now = self.moe().members();
  return {now.epoch, now.active_ranks};
}

}  // namespace

void bind_communicator(nb::module_& module) {
  bind_received(module);
  bind_quick(module);
  const nb::arg given{"given"}, slot{"slot"}, num_sms{"num_sms"}, num_rows{"num_rows"}, stream{"stream"},
      config{"config"};
  nb::class_<communicator>(module, "Communicator")
      .def("dispatch_async", &dispatch_async, given, slot, num_sms, stream)
      .def("combine_async", &combine_async, given, slot, num_sms, num_rows, stream)
      .def("combine_wait", &combine_wait, given, slot, stream)
      .def("combine", &combine, given, slot, num_sms, num_rows, stream)
      .def("check_dispatch", &check_dispatch, given, slot, num_sms)
      .def("check_combine", &check_combine, given, slot, num_sms, num_rows)
      .def("check", &communicator::check)
      .def("num_tokens", &num_tokens, slot)
      .def("dump_state", &dump_state)
      .def_prop_ro("members", &members)
      .def_prop_ro("room", &room)
      .def_prop_ro("config", [](const communicator& self) { return dict_of(self.moe().config()); })
      .def_prop_ro("local_experts", &local_experts);
  module.def("dispatch_wait", &dispatch_wait, nb::arg("communicator"), slot, stream);
  module.def("dispatch", &dispatch, nb::arg("communicator"), given, slot, num_sms, stream);
  module.def("release", &release, nb::arg("communicators"));
  module.def("reacquire", &reacquire, nb::arg("communicators"));
  module.def("set_members", &set_members, nb::arg("communicators"), nb::arg("epoch"),
             nb::arg("active_ranks"));
  module.def("create", &create, nb::arg("world"), config);
  module.def("create_all", &create_all, nb::arg("worlds"), config);
  module.def("why_not", &reason_against, config, nb::arg("num_ranks"));
  module.def("workspace_bytes", &bytes_of, config, nb::arg("num_ranks"));
}

}  // namespace baton::python
