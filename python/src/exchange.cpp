#include "exchange.hpp"

#include <nanobind/stl/optional.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace baton::python {
namespace {

namespace nb = nanobind;

constexpr std::uint32_t known_major = 1;
constexpr int cuda = 2;  // of DLPack's kinds of devices

const dlpack_exchange* found_at(nb::handle type) {
  const auto table = nb::steal(PyObject_GetAttrString(type.ptr(), "__dlpack_c_exchange_api__"));
  void* at = table.is_valid() ? PyCapsule_GetPointer(table.ptr(), "dlpack_exchange_api") : nullptr;
  PyErr_Clear();
  const auto* exchange = static_cast<const dlpack_exchange*>(at);
  while (exchange != nullptr && exchange->version.major != known_major) exchange = exchange->older;
  return exchange;
}

/// As an address; None: nobody says.
std::optional<std::uintptr_t> current_stream_of(const nb::type_object& type, int device_index) {
  return current_stream(reinterpret_cast<PyTypeObject*>(type.ptr()), device_index);
}

}  // namespace

const dlpack_exchange* exchange_of(PyTypeObject* type) {
  struct seen_type {
    PyTypeObject* type;  // owned
    const dlpack_exchange* exchange;
  };
  static std::vector<seen_type> seen;
  constexpr std::size_t most = 64;
  for (const seen_type& one : seen)
    if (one.type == type) return one.exchange;
  auto* const object = reinterpret_cast<PyObject*>(type);
  const dlpack_exchange* const exchange = found_at(object);
  if (seen.size() < most) {
    Py_INCREF(object);
    seen.push_back({type, exchange});
  }
  return exchange;
}

std::optional<std::uintptr_t> current_stream(PyTypeObject* type, int device_index) {
  const dlpack_exchange* const exchange = exchange_of(type);
  void* stream = nullptr;
  if (exchange == nullptr) return std::nullopt;
  if (exchange->current_stream(cuda, device_index, &stream) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  return reinterpret_cast<std::uintptr_t>(stream);
}

void bind_exchange(nb::module_& module) {
  module.def("current_stream_of", &current_stream_of, nb::arg("type"), nb::arg("device_index"));
}

}  // namespace baton::python
