#pragma once
// Methods of Python that a function of C stands before.
#include <nanobind/nanobind.h>

#include <cstddef>

namespace baton::python {

/// `method`, whose calls `call` is given first, as a method is: with self before the arguments. Its signature, docstring and
/// name are those of `method`.
nanobind::object quick_method(const nanobind::object& method, vectorcallfunc call);

/// For `call`, of what it was given: does what the method does.
PyObject* as_ever(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names);

}  // namespace baton::python
