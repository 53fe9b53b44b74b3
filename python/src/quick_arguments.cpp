#include "quick_arguments.hpp"

#include <limits>

namespace baton::python {
namespace {

using names_of_parameters = std::array<PyObject*, num_parameters>;

names_of_parameters interned() {
  constexpr std::array<const char*, num_parameters> names = {
      "tokens",        "topk_idx", "topk_weights", "input_scales", "expert_load", "expert_output",
      "shared_output", "out",      "slot",         "num_sms",      "num_rows",    "stream"};
  names_of_parameters all{};
  for (std::size_t i = 0; i < num_parameters; ++i) all[i] = PyUnicode_InternFromString(names[i]);
  return all;
}

/// Names in source text are interned, so that addresses tell; others come out of dictionaries.
std::optional<parameter> parameter_named(PyObject* name) {
  static const names_of_parameters all = interned();
  for (std::size_t i = 0; i < num_parameters; ++i)
    if (all[i] == name) return static_cast<parameter>(i);
  for (std::size_t i = 0; i < num_parameters; ++i)
    if (PyUnicode_Compare(all[i], name) == 0) return static_cast<parameter>(i);
  return std::nullopt;
}

}  // namespace

bool quick_arguments::read(const signature& of, PyObject* const* args, std::size_t count, PyObject* names) {
  const auto with_self = static_cast<std::size_t>(PyVectorcall_NARGS(count));
  if (with_self < 1 || with_self - 1 > of.num_by_place) return false;
  for (std::size_t i = 1; i < with_self; ++i) at(of.by_place[i - 1]) = args[i];
  const Py_ssize_t named = names == nullptr ? 0 : PyTuple_Size(names);
  for (Py_ssize_t i = 0; i < named; ++i) {
    const auto p = parameter_named(PyTuple_GetItem(names, i));
    if (!p || !of.has(*p) || at(*p) != nullptr) return false;
    at(*p) = args[with_self + static_cast<std::size_t>(i)];
  }
  for (std::size_t i = 0; i < of.num_required; ++i)
    if (at(of.by_place[i]) == nullptr) return false;
  return true;
}

std::optional<int> quick_arguments::integer_of(PyObject* number) {
  if (!PyLong_CheckExact(number)) return std::nullopt;
  int overflow = 0;
  const long value = PyLong_AsLongAndOverflow(number, &overflow);
  using limits = std::numeric_limits<int>;
  if (overflow != 0 || value < limits::min() || value > limits::max()) return std::nullopt;
  return static_cast<int>(value);
}

std::optional<std::uintptr_t> address_of(PyObject* number) {
  if (!PyLong_CheckExact(number)) return std::nullopt;
  const unsigned long long value = PyLong_AsUnsignedLongLong(number);
  if (value == std::numeric_limits<unsigned long long>::max() && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return std::nullopt;
  }
  return value;
}

}  // namespace baton::python
