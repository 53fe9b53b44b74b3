#pragma once
// DLPack's table of functions for arrays of Python: how frameworks give and take arrays without a call of Python. The layouts
// are those that DLPack 1.2 fixes; a type has the table as its attribute __dlpack_c_exchange_api__.
#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>

namespace baton::python {

struct dlpack_device {
  std::int32_t kind;
  std::int32_t index;
};

struct dlpack_dtype {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};

struct dlpack_tensor {
  void* data;
  dlpack_device device;
  std::int32_t ndim;
  dlpack_dtype dtype;
  const std::int64_t* shape;
  const std::int64_t* strides;  // in elements; null: contiguous
  std::uint64_t byte_offset;
};

struct dlpack_exchange {
  struct {
    std::uint32_t major, minor;
  } version;
  const dlpack_exchange* older;
  void* allocate;
  void* managed_from_object;
  void* object_from_managed;
  int (*tensor_from_object)(void* object, dlpack_tensor* out);  // may be null
  int (*current_stream)(int device_kind, std::int32_t device_index, void** out);
};

/// That of arrays of `type`; null: it has none that we know. Types are few and asked once.
const dlpack_exchange* exchange_of(PyTypeObject* type);

/// The stream that the framework whose arrays are of `type` works on now; nullopt: it does not say.
std::optional<std::uintptr_t> current_stream(PyTypeObject* type, int device_index);

void bind_exchange(nanobind::module_& module);

}  // namespace baton::python
