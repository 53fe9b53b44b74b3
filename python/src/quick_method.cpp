#include "quick_method.hpp"

#include <structmember.h>

#include <cstddef>

namespace baton::python {
namespace {

namespace nb = nanobind;

/// Functions of Python come to `self` in the same way.
struct method_object {
  PyObject_HEAD;
  PyObject* attributes;  // name, docstring and whatever else functools.update_wrapper gives
  PyObject* method;
  vectorcallfunc call;
};

PyObject* type_of_bound() {
  static PyObject* const type = nb::object(nb::module_::import_("types").attr("MethodType")).release().ptr();
  return type;
}

PyObject* bound(PyObject* self, PyObject* to, PyObject*) {
  if (to == nullptr || to == Py_None) {
    Py_INCREF(self);
    return self;
  }
  PyObject* const both[] = {self, to};
  return PyObject_Vectorcall(type_of_bound(), both, 2, nullptr);
}

void destroy(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  auto* const its = reinterpret_cast<method_object*>(self);
  Py_CLEAR(its->attributes);
  Py_CLEAR(its->method);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyTypeObject* new_type() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(method_object, call), READONLY, nullptr},
      {"__dictoffset__", T_PYSSIZET, offsetof(method_object, attributes), READONLY, nullptr},
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
  static PyType_Spec spec = {"baton._core.QuickMethod", sizeof(method_object), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
                             slots};
  return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
}

}  // namespace

PyObject* as_ever(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  return PyObject_Vectorcall(reinterpret_cast<method_object*>(self)->method, args, count, names);
}

nb::object quick_method(const nb::object& method, vectorcallfunc call) {
  static PyTypeObject* const type = new_type();
  if (type == nullptr) throw nb::python_error{};
  const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  nb::object made = nb::steal(allocate(type, 0));
  if (!made.is_valid()) throw nb::python_error{};
  auto* const its = reinterpret_cast<method_object*>(made.ptr());
  its->method = nb::object{method}.release().ptr();
  its->call = call;
  return nb::module_::import_("functools").attr("update_wrapper")(made, method);
}

}  // namespace baton::python
