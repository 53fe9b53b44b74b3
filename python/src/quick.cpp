#include "quick.hpp"

#include <structmember.h>

#include <cstddef>
#include <new>
#include <optional>
#include <utility>

#include "exchange.hpp"

namespace baton::python {
namespace {

/// A method of Python and what is tried before it. Functions of Python come to `self` in the same way.
struct quick_method {
  PyObject_HEAD;
  PyObject* attributes;  // name, docstring and whatever else functools.update_wrapper gives
  PyObject* method;
  vectorcallfunc call;
};

PyObject* type_of_bound = nullptr;  // types.MethodType; owned, as the next
PyTypeObject* type_of_method = nullptr;
PyTypeObject* type_of_quick = nullptr;
PyTypeObject* type_of_received = nullptr;  // baton.Received
PyObject *its_quick = nullptr, *its_place = nullptr, *out_name = nullptr, *tokens_name = nullptr,
         *grad_name = nullptr;

PyObject* as_ever(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  return PyObject_Vectorcall(reinterpret_cast<quick_method*>(self)->method, args, count, names);
}

/// That of a communicator; invalid: it has none.
nb::object quick_of(PyObject* exchange) {
  nb::object found = nb::steal(PyObject_GetAttr(exchange, its_quick));
  if (!found.is_valid()) PyErr_Clear();
  if (!found.is_valid() || Py_TYPE(found.ptr()) != type_of_quick) return {};
  return found;
}

PyObject* made_received(const quick& of, const received_tokens& rows) {
  nb::object made = nb::inst_alloc(nb::handle{reinterpret_cast<PyObject*>(type_of_received)});
  new (nb::inst_ptr<received>(made)) received{of.core, rows, live_view{of.its->live_views()}};
  nb::inst_mark_ready(made);
  if (PyObject_SetAttr(made.ptr(), its_place, of.place.ptr()) != 0) return nullptr;
  return made.release().ptr();
}

/// dispatch(self, tokens, topk_idx[, topk_weights])
PyObject* dispatch_quickly(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  const auto given = static_cast<std::size_t>(PyVectorcall_NARGS(count));
  if (names != nullptr || given < 3 || given > 4) return as_ever(self, args, count, names);
  const nb::object held = quick_of(args[0]);
  if (!held.is_valid()) return as_ever(self, args, count, names);
  const quick& its = *nb::inst_ptr<quick>(held);
  if (its.kind != Py_TYPE(args[1])) return as_ever(self, args, count, names);
  const auto stream = current_stream(its.kind, its.gpu);
  if (!stream) return as_ever(self, args, count, names);
  try {
    PyObject* const weights = given > 3 ? args[3] : Py_None;
    const received_tokens rows =
        its.its->dispatch({args[1], args[2], weights, Py_None, Py_None, 0, 0}, *stream);
    return made_received(its, rows);
  } catch (...) {
    raise_caught();
    return nullptr;
  }
}

bool is_out_alone(PyObject* names) {
  if (names == nullptr || PyTuple_Size(names) != 1) return false;
  PyObject* const name = PyTuple_GetItem(names, 0);
  return name == out_name || PyUnicode_Compare(name, out_name) == 0;
}

/// combine(self, expert_output, out=out)
PyObject* combine_quickly(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  if (PyVectorcall_NARGS(count) != 2 || !is_out_alone(names) || args[2] == Py_None)
    return as_ever(self, args, count, names);
  const nb::object held = quick_of(args[0]);
  if (!held.is_valid()) return as_ever(self, args, count, names);
  const quick& its = *nb::inst_ptr<quick>(held);
  const auto stream = current_stream(Py_TYPE(args[1]), its.gpu);
  if (!stream) return as_ever(self, args, count, names);
  try {
    its.its->combine({args[1], Py_None, Py_None, args[2], 0, 0}, *stream);
  } catch (...) {
    raise_caught();
    return nullptr;
  }
  Py_INCREF(args[2]);
  return args[2];
}

/// Whether an array of a framework that has DLPack's table has `shape`, a tuple.
bool is_of_shape(PyObject* seen, PyObject* shape) {
  const dlpack_exchange* const exchange = exchange_of(Py_TYPE(seen));
  if (exchange == nullptr || exchange->tensor_from_object == nullptr || !PyTuple_Check(shape)) return false;
  dlpack_tensor found{};
  if (exchange->tensor_from_object(seen, &found) != 0) {
    PyErr_Clear();
    return false;
  }
  if (PyTuple_Size(shape) != found.ndim) return false;
  for (int i = 0; i < found.ndim; ++i)
    if (PyLong_AsLongLong(PyTuple_GetItem(shape, i)) != found.shape[i]) return false;
  return true;
}

/// Received.tokens(self) where a round before has made the view, and nobody changed it since: baton._received.is_changed.
PyObject* tokens_quickly(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  if (PyVectorcall_NARGS(count) != 1 || names != nullptr) return as_ever(self, args, count, names);
  const nb::object place = nb::steal(PyObject_GetAttr(args[0], its_place));
  if (!place.is_valid()) return nullptr;
  constexpr Py_ssize_t views = 3;  // of baton._received.Place
  PyObject* const entry = PyDict_GetItemWithError(PyTuple_GetItem(place.ptr(), views), tokens_name);
  if (entry == nullptr) return as_ever(self, args, count, names);
  PyObject* const seen = PyTuple_GetItem(entry, 0);
  if (!is_of_shape(seen, PyTuple_GetItem(entry, 1))) return as_ever(self, args, count, names);
  const nb::object grad = nb::steal(PyObject_GetAttr(seen, grad_name));
  if (grad.ptr() != Py_False) {
    PyErr_Clear();
    return as_ever(self, args, count, names);
  }
  Py_INCREF(seen);
  return seen;
}

PyObject* bound(PyObject* self, PyObject* to, PyObject*) {
  if (to == nullptr || to == Py_None) {
    Py_INCREF(self);
    return self;
  }
  PyObject* const both[] = {self, to};
  return PyObject_Vectorcall(type_of_bound, both, 2, nullptr);
}

void destroy(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  auto* const its = reinterpret_cast<quick_method*>(self);
  Py_CLEAR(its->attributes);
  Py_CLEAR(its->method);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyTypeObject* new_type_of_method() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(quick_method, call), READONLY, nullptr},
      {"__dictoffset__", T_PYSSIZET, offsetof(quick_method, attributes), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  static PyGetSetDef attributes[] = {
      {"__dict__", &PyObject_GenericGetDict, &PyObject_GenericSetDict, nullptr, nullptr},
      {nullptr, nullptr, nullptr, nullptr, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
                                {Py_tp_descr_get, reinterpret_cast<void*>(&bound)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(&destroy)},
                                {Py_tp_members, members},
                                {Py_tp_getset, attributes},
                                {0, nullptr}};
  static PyType_Spec spec = {"baton._core.QuickMethod", sizeof(quick_method), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
                             slots};
  return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
}

nb::object wrapped(const nb::object& method, vectorcallfunc call) {
  if (type_of_method == nullptr) type_of_method = new_type_of_method();
  if (type_of_method == nullptr) throw nb::python_error{};
  const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type_of_method, Py_tp_alloc));
  nb::object made = nb::steal(allocate(type_of_method, 0));
  if (!made.is_valid()) throw nb::python_error{};
  auto* const its = reinterpret_cast<quick_method*>(made.ptr());
  its->method = nb::object{method}.release().ptr();
  its->call = call;
  return nb::module_::import_("functools").attr("update_wrapper")(made, method);
}

}  // namespace

quick::quick(nb::object of)
    : core{std::move(of)},
      its{&nb::cast<communicator&>(core)},
      gpu{its->rank().is_cpu() ? -1 : its->rank().get().device_index()} {}

void quick::remember(const nb::object& type, nb::object its_place) {
  const bool is_one = gpu >= 0 && PyType_Check(type.ptr());
  owned_kind = type;
  kind = is_one ? reinterpret_cast<PyTypeObject*>(type.ptr()) : nullptr;
  place = std::move(its_place);
}

void bind_quick(nb::module_& module) {
  type_of_bound = nb::object(nb::module_::import_("types").attr("MethodType")).release().ptr();
  its_quick = PyUnicode_InternFromString("_quick");
  its_place = PyUnicode_InternFromString("_place");
  tokens_name = PyUnicode_InternFromString("tokens");
  grad_name = PyUnicode_InternFromString("requires_grad");
  out_name = PyUnicode_InternFromString("out");
  const nb::class_<quick> bound_quick =
      nb::class_<quick>(module, "Quick")
          .def(
              "__init__", [](quick* at, nb::object of) { new (at) quick{std::move(of)}; },
              nb::arg("communicator"))
          .def("remember", &quick::remember, nb::arg("kind").none(), nb::arg("place").none());
  type_of_quick = reinterpret_cast<PyTypeObject*>(nb::object{bound_quick}.release().ptr());
  module.def("makes_received", [](nb::object type) {
    type_of_received = reinterpret_cast<PyTypeObject*>(type.release().ptr());
  });
  module.def("quick_dispatch", [](const nb::object& method) { return wrapped(method, &dispatch_quickly); });
  module.def("quick_tokens", [](const nb::object& method) { return wrapped(method, &tokens_quickly); });
  module.def("quick_combine", [](const nb::object& method) { return wrapped(method, &combine_quickly); });
}

}  // namespace baton::python
