#include "quick.hpp"

#include <nanobind/typing.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "exchange.hpp"
#include "quick_arguments.hpp"
#include "quick_method.hpp"

namespace baton::python {
namespace {

using enum parameter;

PyTypeObject* type_of_quick = nullptr;     // owned, as the next
PyTypeObject* type_of_received = nullptr;  // baton.Received
PyObject *its_quick = nullptr, *its_place = nullptr, *tokens_name = nullptr, *grad_name = nullptr,
         *stream_name = nullptr;

/// That of a communicator; invalid: it has none.
nb::object quick_of(PyObject* exchange) {
  nb::object found = nb::steal(PyObject_GetAttr(exchange, its_quick));
  if (!found.is_valid()) PyErr_Clear();
  if (!found.is_valid() || Py_TYPE(found.ptr()) != type_of_quick || !nb::inst_ready(found)) return {};
  return found;
}

/// As baton._arrays.kind_of.
PyTypeObject* kind_of(PyObject* given) {
  const bool is_some = PyTuple_Check(given) && PyTuple_Size(given) > 0;
  return Py_TYPE(is_some ? PyTuple_GetItem(given, 0) : given);
}

/// As baton._arrays.stream_handle; nullopt: the method finds it, or refuses.
std::optional<std::uintptr_t> stream_of(const quick& its, const quick_arguments& given, PyTypeObject* kind) {
  if (!given.has(stream)) return its.gpu < 0 ? std::uintptr_t{0} : current_stream(kind, its.gpu);
  PyObject* const said = given[stream];
  if (PyLong_Check(said)) return address_of(said);
  const nb::object handle = nb::steal(PyObject_GetAttr(said, stream_name));  // torch's
  if (!handle.is_valid()) PyErr_Clear();
  return handle.is_valid() ? address_of(handle.ptr()) : std::nullopt;
}

/// What a call is asked beside its arrays.
struct choices {
  int slot = 0, num_sms = 0, num_rows = -1;
  std::uintptr_t stream = 0;
};

/// nullopt: the method looks at them.
std::optional<choices> choices_of(const quick& its, const quick_arguments& given, PyTypeObject* kind) {
  const auto of_slot = given.integer(slot, 0), sms = given.integer(num_sms, 0),
             rows = given.integer(num_rows, -1);
  if (!of_slot || !sms || !rows) return std::nullopt;
  const auto on = stream_of(its, given, kind);
  if (!on) return std::nullopt;
  return choices{*of_slot, *sms, *rows, *on};
}

nb::object made_received(const quick& of, const received_tokens& rows, const nb::object& place) {
  nb::object made = nb::inst_alloc(nb::handle{reinterpret_cast<PyObject*>(type_of_received)});
  new (nb::inst_ptr<received>(made)) received{received_by(of.core, rows)};
  nb::inst_mark_ready(made);
  if (PyObject_SetAttr(made.ptr(), its_place, place.ptr()) != 0) throw nb::python_error{};
  return made;
}

struct sending {
  dispatch_arguments arguments;
  std::uintptr_t stream = 0;
  nb::object place;
};

std::optional<sending> sending_of(const quick& its, const quick_arguments& given) {
  PyTypeObject* const kind = kind_of(given[tokens]);
  const auto chosen = choices_of(its, given, kind);
  const quick::slot_place* const at = chosen ? its.place_of(chosen->slot) : nullptr;
  if (at == nullptr || reinterpret_cast<PyTypeObject*>(at->kind.ptr()) != kind) return std::nullopt;
  return sending{{given.array(tokens), given.array(topk_idx), given.array(topk_weights),
                  given.array(input_scales), given.array(expert_load), chosen->slot, chosen->num_sms},
                 chosen->stream,
                 at->place};
}

/// `out` of a call on `slot`, or a new one; invalid: the method makes it.
nb::object out_of(const quick& its, const quick_arguments& given, int of_slot) {
  if (given.has(out)) return nb::borrow(given[out]);
  const quick::slot_place* const at = its.place_of(of_slot);
  if (at == nullptr || at->new_out.is_none() || (its.gpu >= 0 && given.has(stream))) return {};
  const nb::object make = at->new_out;
  return make(nb::make_tuple(its.its->round(of_slot).num_tokens, its.its->moe().config().hidden));
}

combine_arguments answers_of(const quick_arguments& given, nb::handle into, const choices& chosen) {
  return {given.array(expert_output),
          given.array(shared_output),
          given.array(topk_weights),
          into,
          chosen.slot,
          chosen.num_sms,
          chosen.num_rows};
}

// The calls. Invalid: none of it is done, and the method is to do it.

nb::object dispatch_async(const quick& its, const quick_arguments& given) {
  const auto of = sending_of(its, given);
  if (!of) return {};
  its.its->dispatch_async(of->arguments, of->stream);
  return nb::none();
}

nb::object dispatch(const quick& its, const quick_arguments& given) {
  const auto of = sending_of(its, given);
  if (!of) return {};
  return made_received(its, its.its->dispatch(of->arguments, of->stream), of->place);
}

/// What a call waits in that says nothing of arrays' kind.
std::optional<std::pair<choices, nb::object>> waiting_of(const quick& its, const quick_arguments& given) {
  const auto of_slot = given.integer(slot, 0);
  const quick::slot_place* const at = of_slot ? its.place_of(*of_slot) : nullptr;
  if (at == nullptr) return std::nullopt;
  const auto chosen = choices_of(its, given, reinterpret_cast<PyTypeObject*>(at->kind.ptr()));
  if (!chosen) return std::nullopt;
  return std::pair{*chosen, at->place};
}

nb::object dispatch_wait(const quick& its, const quick_arguments& given) {
  const auto of = waiting_of(its, given);
  if (!of) return {};
  const auto& [chosen, place] = *of;
  return made_received(its, its.its->dispatch_wait(chosen.slot, chosen.stream), place);
}

nb::object combine_async(const quick& its, const quick_arguments& given) {
  const auto chosen = choices_of(its, given, kind_of(given[expert_output]));
  if (!chosen) return {};
  its.its->combine_async(answers_of(given, {}, *chosen), chosen->stream);
  return nb::none();
}

nb::object combine(const quick& its, const quick_arguments& given) {
  const auto chosen = choices_of(its, given, kind_of(given[expert_output]));
  nb::object into = chosen ? out_of(its, given, chosen->slot) : nb::object{};
  if (!into.is_valid()) return {};
  its.its->combine(answers_of(given, into, *chosen), chosen->stream);
  return into;
}

nb::object combine_wait(const quick& its, const quick_arguments& given) {
  const auto of = waiting_of(its, given);
  if (!of) return {};
  const choices& chosen = of->first;
  nb::object into = out_of(its, given, chosen.slot);
  if (!into.is_valid()) return {};
  its.its->combine_wait(given.array(topk_weights), into, chosen.slot, chosen.stream);
  return into;
}

/// What stands before a method that takes what `Takes` says.
template <auto Call, const signature& Takes>
PyObject* tried(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  quick_arguments given;
  const nb::object held = given.read(Takes, args, count, names) ? quick_of(args[0]) : nb::object{};
  if (!held.is_valid()) return as_ever(self, args, count, names);
  try {
    nb::object result = Call(*nb::inst_ptr<quick>(held), given);
    if (result.is_valid()) return result.release().ptr();
  } catch (...) {
    raise_caught();
    return nullptr;
  }
  return as_ever(self, args, count, names);
}

/// Whether an array of a framework that has DLPack's table has `shape`, a tuple, and lies where `memory` says: (address, type).
bool is_as_kept(PyObject* seen, PyObject* shape, PyObject* memory) {
  const dlpack_exchange* const exchange = exchange_of(Py_TYPE(seen));
  if (exchange == nullptr || exchange->tensor_from_object == nullptr || !PyTuple_Check(shape)) return false;
  dlpack_tensor found{};
  if (exchange->tensor_from_object(seen, &found) != 0) {
    PyErr_Clear();
    return false;
  }
  if (PyTuple_Size(shape) != found.ndim) return false;
  const auto address = PyTuple_Check(memory) && PyTuple_Size(memory) > 0
                           ? address_of(PyTuple_GetItem(memory, 0))
                           : std::nullopt;
  if (address != reinterpret_cast<std::uintptr_t>(found.data) + found.byte_offset) return false;
  for (int i = 0; i < found.ndim; ++i)
    if (PyLong_AsLongLong(PyTuple_GetItem(shape, i)) != found.shape[i]) return false;
  return true;
}

/// Whether an array of a framework that has DLPack's table has `shape`, a tuple, and lies where `memory` says, (address, type).
nb::object view_of_tokens(PyObject* place) {
  constexpr Py_ssize_t views = 3;
  PyObject* const kept =
      PyTuple_Check(place) && PyTuple_Size(place) > views ? PyTuple_GetItem(place, views) : nullptr;
  if (kept == nullptr || !PyDict_Check(kept)) return {};
  nb::object entry = nb::borrow(PyDict_GetItemWithError(kept, tokens_name));
  PyErr_Clear();
  const bool is_one = entry.is_valid() && PyTuple_Check(entry.ptr()) && PyTuple_Size(entry.ptr()) == 3;
  return is_one ? entry : nb::object{};
}

/// Received.tokens(self) where a round before has made the view, and nobody changed it since: baton._received.is_changed.
PyObject* tokens_quickly(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  if (PyVectorcall_NARGS(count) != 1 || names != nullptr) return as_ever(self, args, count, names);
  const nb::object place = nb::steal(PyObject_GetAttr(args[0], its_place));
  if (!place.is_valid()) return nullptr;
  const nb::object entry = view_of_tokens(place.ptr());
  if (!entry.is_valid()) return as_ever(self, args, count, names);
  PyObject* const seen = PyTuple_GetItem(entry.ptr(), 0);
  if (!is_as_kept(seen, PyTuple_GetItem(entry.ptr(), 1), PyTuple_GetItem(entry.ptr(), 2)))
    return as_ever(self, args, count, names);
  const nb::object grad = nb::steal(PyObject_GetAttr(seen, grad_name));
  if (grad.ptr() != Py_False) {
    PyErr_Clear();
    return as_ever(self, args, count, names);
  }
  Py_INCREF(seen);
  return seen;
}

constexpr signature of_dispatch{
    {tokens, topk_idx, topk_weights}, 2, {input_scales, expert_load, slot, num_sms, stream}};
constexpr signature of_dispatch_wait{{}, 0, {slot, stream}};
constexpr signature of_combine{
    {expert_output, shared_output}, 1, {out, topk_weights, num_rows, slot, num_sms, stream}};
constexpr signature of_combine_async{
    {expert_output, shared_output}, 1, {topk_weights, num_rows, slot, num_sms, stream}};
constexpr signature of_combine_wait{{out}, 0, {topk_weights, slot, stream}};

struct named_call {
  const char* name;
  vectorcallfunc call;
};
constexpr named_call calls[] = {{"dispatch_async", &tried<&dispatch_async, of_dispatch>},
                                {"dispatch_wait", &tried<&dispatch_wait, of_dispatch_wait>},
                                {"dispatch", &tried<&dispatch, of_dispatch>},
                                {"combine_async", &tried<&combine_async, of_combine_async>},
                                {"combine_wait", &tried<&combine_wait, of_combine_wait>},
                                {"combine", &tried<&combine, of_combine>},
                                {"tokens", &tokens_quickly}};

nb::object quick_way_before(const nb::object& method) {
  const auto name = nb::cast<nb::str>(method.attr("__name__"));
  for (const named_call& one : calls)
    if (std::strcmp(one.name, name.c_str()) == 0) return quick_method(method, one.call);
  throw std::invalid_argument{"quick: there is none of " + std::string{name.c_str()}};
}

}  // namespace

quick::quick(nb::object of)
    : core{std::move(of)},
      its{&nb::cast<communicator&>(core)},
      gpu{its->rank().is_cpu() ? -1 : its->rank().get().device_index()},
      places(static_cast<std::size_t>(its->moe().config().num_slots)) {}

void quick::remember(std::size_t slot, const nb::object& place) {
  const bool is_for_them = !nb::cast<bool>(place.attr("is_new_to_rounds"));
  places.at(slot) = is_for_them ? slot_place{place.attr("kind"), place, place.attr("new_out")} : slot_place{};
}

const quick::slot_place* quick::place_of(int slot) const {
  if (slot < 0 || static_cast<std::size_t>(slot) >= places.size()) return nullptr;
  const slot_place& at = places[static_cast<std::size_t>(slot)];
  return at.kind.is_valid() ? &at : nullptr;
}

void bind_quick(nb::module_& module) {
  its_quick = PyUnicode_InternFromString("_quick");
  its_place = PyUnicode_InternFromString("_place");
  tokens_name = PyUnicode_InternFromString("tokens");
  grad_name = PyUnicode_InternFromString("requires_grad");
  stream_name = PyUnicode_InternFromString("cuda_stream");
  const nb::class_<quick> bound_quick =
      nb::class_<quick>(module, "Quick")
          .def(
              "__init__", [](quick* at, nb::object of) { new (at) quick{std::move(of)}; },
              nb::arg("communicator"))
          .def("remember", &quick::remember, nb::arg("slot"), nb::arg("place"));
  type_of_quick = reinterpret_cast<PyTypeObject*>(nb::object{bound_quick}.release().ptr());
  module.def("makes_received", [](nb::type_object type) {
    const bool is_one = PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type.ptr()),
                                         reinterpret_cast<PyTypeObject*>(nb::type<received>().ptr())) != 0;
    if (!is_one) throw nb::type_error("makes_received: expected a class of _core.Received's");
    type_of_received = reinterpret_cast<PyTypeObject*>(type.release().ptr());
  });
  module.attr("Method") =
      nb::type_var("Method");  // for those who check types: what is decorated stays what it was
  module.def("quick", &quick_way_before, nb::arg("method"), nb::sig("def quick(method: Method) -> Method"));
}

}  // namespace baton::python
