#include "arrays.hpp"

#include <algorithm>
#include <optional>

#include "baton/error.hpp"

namespace baton::python {
namespace {

struct element_facts {
  const char* name;  // as numpy and ml_dtypes have it
  nb::dlpack::dtype_code code;
  std::uint8_t bits;
};

constexpr element_facts facts_of(element e) {
  using code = nb::dlpack::dtype_code;
  constexpr element_facts facts[] = {{"float32", code::Float, 32},
                                     {"float16", code::Float, 16},
                                     {"bfloat16", code::Bfloat, 16},
                                     {"float8_e4m3fn", code::Float8_E4M3FN, 8},
                                     {"float8_e8m0fnu", code::Float8_E8M0FNU, 8},
                                     {"int32", code::Int, 32},
                                     {"int64", code::Int, 64},
                                     {"uint8", code::UInt, 8}};
  return facts[static_cast<int>(e)];
}

nb::dlpack::dtype dtype_of(element e, bool as_bits) {
  const element_facts facts = facts_of(e);
  const bool is_narrow = e == element::bf16 || e == element::e4m3 || e == element::e8m0;
  const auto code = as_bits && is_narrow ? nb::dlpack::dtype_code::UInt : facts.code;
  return {static_cast<std::uint8_t>(code), facts.bits, 1};
}

std::optional<element> element_of(nb::dlpack::dtype type) {
  for (int e = 0; e <= static_cast<int>(element::uint8); ++e)
    if (dtype_of(static_cast<element>(e), false) == type) return static_cast<element>(e);
  return std::nullopt;
}

std::string name_of(nb::dlpack::dtype type) {
  if (const auto known = element_of(type)) return facts_of(*known).name;
  using code = nb::dlpack::dtype_code;
  const char* kind = type.code == static_cast<std::uint8_t>(code::Int)     ? "int"
                     : type.code == static_cast<std::uint8_t>(code::UInt)  ? "uint"
                     : type.code == static_cast<std::uint8_t>(code::Float) ? "float"
                     : type.code == static_cast<std::uint8_t>(code::Bool)  ? "bool"
                                                                          : "an element type of DLPack code ";
  if (kind[0] == 'a') return kind + std::to_string(type.code) + " of " + std::to_string(type.bits) + " bits";
  return kind + std::to_string(type.bits);
}

template <class Extents>
std::string shape_text(const Extents& shape) {
  std::string text = "[";
  for (const auto extent : shape)
    text += (text.size() > 1 ? ", " : "") +
            (static_cast<std::int64_t>(extent) < 0 ? "any" : std::to_string(extent));
  return text + "]";
}

std::vector<std::int64_t> shape_of(const kept_array& memory) {
  return {memory.shape_ptr(), memory.shape_ptr() + memory.ndim()};
}

std::string device_text(int type, int index) {
  using namespace nb::device;
  const char* name = type == cpu::value            ? "cpu"
                     : type == cuda::value         ? "cuda"
                     : type == cuda_host::value    ? "pinned cpu"
                     : type == cuda_managed::value ? "managed cuda"
                                                   : "another kind of device";
  return name + (type == cuda::value ? ":" + std::to_string(index) : "");
}

std::string device_text(const world& rank) {
  return rank.device() == device_kind::cpu ? "cpu" : "cuda:" + std::to_string(rank.device_index());
}

/// An array as it was found, of an element type that the library may not know.
struct found_array {
  kept_array memory;
  nb::dlpack::dtype type;
  bool is_read_only = false;
};

/// Nobody has an array of numpy before numpy is imported.
bool is_numpy(nb::handle given) {
  static PyObject* array_type = nullptr;
  if (array_type == nullptr) {
    const auto numpy = nb::steal(PyImport_GetModule(nb::str("numpy").ptr()));
    PyErr_Clear();
    if (!numpy.is_valid()) return false;
    array_type = nb::object(numpy.attr("ndarray")).release().ptr();
  }
  return PyObject_IsInstance(given.ptr(), array_type) == 1;
}

std::optional<element> ml_dtype_named(const nb::str& name) {
  for (const element e : {element::bf16, element::e4m3, element::e8m0})
    if (name.equal(nb::str(facts_of(e).name))) return e;
  return std::nullopt;
}

/// numpy gives no array of ml_dtypes away, neither by DLPack nor as a buffer: it is seen as integers, as which it lies there.
/// A dtype's name takes numpy longer than all the rest of a call; there are few dtypes, and what was seen of them is kept.
std::optional<element> ml_dtype_of(nb::handle given) {
  struct seen_dtype {
    PyObject* dtype;  // owned
    std::optional<element> element_type;
  };
  static std::vector<seen_dtype> seen;
  constexpr std::size_t most = 64;
  nb::object dtype = given.attr("dtype");
  for (const seen_dtype& one : seen)
    if (one.dtype == dtype.ptr()) return one.element_type;
  const std::optional<element> found = ml_dtype_named(nb::str(dtype.attr("name")));
  if (seen.size() < most) seen.push_back({dtype.release().ptr(), found});
  return found;
}

std::optional<found_array> find(nb::handle given, bool is_written) {
  found_array found;
  if (is_numpy(given)) {
    found.is_read_only = is_written && !nb::cast<bool>(given.attr("flags").attr("writeable"));
    if (const auto narrow = ml_dtype_of(given)) {
      const nb::object bits = given.attr("view")(narrow == element::bf16 ? "uint16" : "uint8");
      if (!nb::try_cast(bits, found.memory, false)) return std::nullopt;
      found.type = dtype_of(*narrow, false);
      return found;
    }
  }
  if (!nb::try_cast(given, found.memory, false)) return std::nullopt;
  found.type = found.memory.dtype();
  return found;
}

bool is_contiguous(const kept_array& memory) {
  if (memory.size() == 0) return true;
  std::int64_t stride = 1;
  for (std::size_t i = memory.ndim(); i-- > 0; stride *= static_cast<std::int64_t>(memory.shape(i)))
    if (memory.shape(i) != 1 && memory.stride(i) != stride) return false;
  return true;
}

bool is_reachable(const kept_array& memory, const world& rank) {
  using namespace nb::device;
  const int type = memory.device_type();
  if (rank.device() == device_kind::cpu) return type == cpu::value || type == cuda_host::value;
  return type == cuda_managed::value || (type == cuda::value && memory.device_id() == rank.device_index());
}

bool fits(const kept_array& memory, const extents& expected) {
  return std::equal(memory.shape_ptr(), memory.shape_ptr() + memory.ndim(), expected.begin(), expected.end(),
                    [](std::int64_t extent, std::int64_t wanted) { return wanted < 0 || extent == wanted; });
}

std::string text_of(const expectation& expected, const world& rank) {
  std::string types;
  for (const element e : expected.types)
    types += (types.empty() ? "" : " or ") + std::string{facts_of(e).name};
  return types + " " + shape_text(expected.shape) + " on " + device_text(rank) + ", contiguous" +
         (expected.is_written ? " and writable" : "");
}

[[noreturn]] void refuse(const expectation& expected, const world& rank, const std::string& found) {
  throw invalid_argument{std::string{expected.name} + ": expected " + text_of(expected, rank) + "; found " +
                         found};
}

}  // namespace

array array_of(nb::handle given, const expectation& expected, const world& rank) {
  const std::optional<found_array> found = find(given, expected.is_written);
  if (!found)
    refuse(expected, rank,
           std::string{nb::inst_name(given).c_str()} + ", which is no array of numpy and speaks no DLPack");
  const kept_array& memory = found->memory;
  const auto type = element_of(found->type);
  const bool knows_type =
      type && std::find(expected.types.begin(), expected.types.end(), *type) != expected.types.end();
  const bool may_be_written = !expected.is_written || !found->is_read_only;
  if (!knows_type || !fits(memory, expected.shape) || !is_reachable(memory, rank) || !is_contiguous(memory) ||
      !may_be_written)
    refuse(expected, rank,
           name_of(found->type) + " " + shape_text(shape_of(memory)) + " on " +
               device_text(memory.device_type(), memory.device_id()) +
               (is_contiguous(memory) ? "" : ", not contiguous") + (may_be_written ? "" : ", read-only"));
  array result{const_cast<void*>(memory.data()), *type, expected.shape, memory};
  result.shape.become(memory.shape_ptr());
  return result;
}

array optional_array(nb::handle given, const expectation& expected, const world& rank) {
  if (given.is_none()) return {};
  return array_of(given, expected, rank);
}

nb::object view_of(const layout& memory, const world& rank, nb::handle owner, bool as_bits) {
  const std::int64_t* const strides = memory.strides.empty() ? nullptr : memory.strides.data();
  void* const data = const_cast<void*>(memory.data);
  if (rank.device() == device_kind::cpu)
    return nb::cast(nb::ndarray<nb::numpy>(data, memory.shape.size(), memory.shape.data(), owner, strides,
                                           dtype_of(memory.type, true)));
  return nb::cast(nb::ndarray<>(data, memory.shape.size(), memory.shape.data(), owner, strides,
                                dtype_of(memory.type, as_bits), nb::device::cuda::value,
                                rank.device_index()));
}

}  // namespace baton::python
