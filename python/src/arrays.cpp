#include "arrays.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "baton/error.hpp"
#include "exchange.hpp"

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
  return kind + (kind == std::string_view{"bool"} ? "" : std::to_string(type.bits));
}

template <class Extents>
std::string shape_text(const Extents& shape) {
  std::string text = "[";
  for (const auto extent : shape)
    text += (text.size() > 1 ? ", " : "") +
            (static_cast<std::int64_t>(extent) < 0 ? "any" : std::to_string(extent));
  return text + "]";
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
  const void* data = nullptr;
  nb::dlpack::dtype type{};
  std::array<std::int64_t, extents::most> shape{}, strides{};
  std::size_t ndim = 0;  // may be more than are noted
  int device_type = 0, device_index = 0;
  bool is_read_only = false;

  std::span<const std::int64_t> noted_shape() const {
    return std::span{shape}.first(std::min(ndim, shape.size()));
  }
  bool is_empty() const { return std::ranges::find(noted_shape(), 0) != noted_shape().end(); }
};

/// `strides` may be null.
void note_shape(found_array& found, std::size_t ndim, const std::int64_t* shape,
                const std::int64_t* strides) {
  found.ndim = ndim;
  std::copy_n(shape, found.noted_shape().size(), found.shape.begin());
  std::int64_t stride = 1;
  for (std::size_t i = found.noted_shape().size(); i-- > 0; stride *= found.shape[i])
    found.strides[i] = strides != nullptr ? strides[i] : stride;
}

/// Of a framework that has DLPack's table, at no cost worth a word.
bool find_by_table(nb::handle given, found_array& found) {
  const dlpack_exchange* const exchange = exchange_of(Py_TYPE(given.ptr()));
  if (exchange == nullptr || exchange->tensor_from_object == nullptr) return false;
  dlpack_tensor seen{};
  if (exchange->tensor_from_object(given.ptr(), &seen) != 0) {
    PyErr_Clear();
    return false;
  }
  found.memory = kept_array{nb::borrow(given)};
  found.data = static_cast<const std::byte*>(seen.data) + seen.byte_offset;
  found.type = {seen.dtype.code, seen.dtype.bits, seen.dtype.lanes};
  note_shape(found, static_cast<std::size_t>(seen.ndim), seen.shape, seen.strides);
  found.device_type = seen.device.kind;
  found.device_index = seen.device.index;
  return true;
}

std::string shape_text(const found_array& found) {
  std::string text = shape_text(found.noted_shape());
  if (found.ndim > found.noted_shape().size()) text.insert(text.size() - 1, ", ...");
  return text;
}

/// Nobody has an array of numpy before numpy is imported.
bool is_numpy(nb::handle given) {
  static PyObject* array_type = nullptr;
  if (array_type == nullptr) {
    const auto numpy = nb::steal(PyImport_GetModule(nb::str("numpy").ptr()));
    PyErr_Clear();
    if (!numpy.is_valid()) return false;
    array_type = nb::object(numpy.attr("ndarray")).release().ptr();
  }
  const int is = PyObject_IsInstance(given.ptr(), array_type);
  if (is < 0) PyErr_Clear();  // objects may say anything of their class
  return is == 1;
}

bool is_true(nb::handle given) {
  const int is = PyObject_IsTrue(given.ptr());
  if (is < 0) throw nb::python_error{};
  return is == 1;
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
  std::optional<element> found = ml_dtype_named(nb::str(dtype.attr("name")));
  if (!is_true(nb::getattr(dtype, "isnative", nb::bool_(false))))
    found.reset();  // its name does not say that bytes are in another order
  if (seen.size() < most) seen.push_back({dtype.release().ptr(), found});
  return found;
}

/// Whether its own says that nobody may write to it, as a memoryview of bytes. Memory of GPUs is not asked: JAX says so of all of
/// its arrays, and has no others to give as `out`.
bool is_read_only_memory(nb::handle given, int device_type) {
  nb::ndarray<> writable;
  return device_type == nb::device::cpu::value && !nb::try_cast(given, writable, false);
}

/// As numpy and nanobind give it.
bool find_by_conversion(nb::handle given, found_array& found, bool is_written) {
  nb::ndarray<nb::ro> memory;
  if (!nb::try_cast(given, memory, false)) return false;
  found.data = memory.data();
  found.type = memory.dtype();
  note_shape(found, memory.ndim(), memory.shape_ptr(), memory.stride_ptr());
  found.device_type = memory.device_type();
  found.device_index = memory.device_id();
  if (is_written && !found.is_read_only) found.is_read_only = is_read_only_memory(given, found.device_type);
  found.memory = kept_array{std::move(memory)};
  return true;
}

/// Of a framework that has numpy's narrow elements and does not give them away, as cupy: seen as integers, too.
bool find_narrow(nb::handle given, found_array& found, bool is_written) {
  if (!nb::hasattr(given, "dtype") || !nb::hasattr(given, "view") ||
      !nb::hasattr(given.attr("dtype"), "name"))
    return false;
  const auto narrow = ml_dtype_of(given);
  if (!narrow) return false;
  const nb::object bits = given.attr("view")(narrow == element::bf16 ? "uint16" : "uint8");
  if (!find_by_table(bits, found) && !find_by_conversion(bits, found, is_written)) return false;
  if (found.type != dtype_of(*narrow, true)) return false;  // whatever its view() made
  found.type = dtype_of(*narrow, false);
  return true;
}

/// False: it is no array.
bool find(nb::handle given, found_array& found, bool is_written) {
  if (find_by_table(given, found)) return true;
  if (is_numpy(given)) {
    found.is_read_only = is_written && !is_true(given.attr("flags").attr("writeable"));
    if (find_narrow(given, found, is_written)) return true;
  }
  return find_by_conversion(given, found, is_written) || find_narrow(given, found, is_written);
}

bool is_contiguous(const found_array& found) {
  if (found.is_empty()) return true;
  std::int64_t stride = 1;
  for (std::size_t i = found.noted_shape().size(); i-- > 0; stride *= found.shape[i])
    if (found.shape[i] != 1 && found.strides[i] != stride) return false;
  return true;
}

/// Of rows counted by the first `rows_of` dimensions, each without gaps, how far they lie apart; nullopt: not evenly.
std::optional<std::int64_t> row_stride_of(const found_array& found, int rows_of) {
  const auto first = static_cast<std::size_t>(rows_of);
  std::int64_t stride = 1;
  std::size_t i = found.noted_shape().size();
  for (; i > first; stride *= found.shape[i]) {
    --i;
    if (found.shape[i] != 1 && found.strides[i] != stride) return std::nullopt;
  }
  std::optional<std::int64_t> apart;  // of the last dimension that has more than one
  std::int64_t rows = 1;
  for (; i-- > 0; rows *= found.shape[i]) {
    if (found.shape[i] == 1) continue;
    if (!apart) apart = found.strides[i] / rows;
    if (found.strides[i] != *apart * rows || *apart < stride) return std::nullopt;
  }
  return apart.value_or(stride);
}

/// Of an array that lies as is expected.
byte_rows byte_rows_of(const found_array& found, const expectation& expected, std::int64_t row_stride) {
  if (found.is_empty()) return {};
  const auto shape = found.noted_shape();
  const std::int64_t size = found.type.bits / 8;
  byte_rows rows{reinterpret_cast<std::uintptr_t>(found.data), 1, size, 0};
  for (std::size_t i = 0; i < shape.size(); ++i)
    (static_cast<int>(i) < expected.rows_of ? rows.count : rows.bytes) *= shape[i];
  rows.apart = expected.rows_of > 0 ? row_stride * size : rows.bytes;
  return rows;
}

bool lies_as(const found_array& found, const expectation& expected) {
  if (found.is_empty() || expected.rows_of == 0) return is_contiguous(found);
  return row_stride_of(found, expected.rows_of).has_value();
}

bool is_reachable(const found_array& found, const world& rank) {
  using namespace nb::device;
  const int type = found.device_type;
  if (rank.device() == device_kind::cpu) return type == cpu::value || type == cuda_host::value;
  return type == cuda_managed::value || (type == cuda::value && found.device_index == rank.device_index());
}

bool fits(const found_array& found, const extents& expected) {
  const auto shape = found.noted_shape();
  return found.ndim == shape.size() &&
         std::equal(shape.begin(), shape.end(), expected.begin(), expected.end(),
                    [](std::int64_t extent, std::int64_t wanted) {
                      return extent >= 0 && (wanted < 0 || extent == wanted);
                    });
}

std::string text_of(const expectation& expected, const world& rank) {
  std::string types;
  for (const element e : expected.types)
    types += (types.empty() ? "" : " or ") + std::string{facts_of(e).name};
  return types + " " + shape_text(expected.shape) + " on " + device_text(rank) +
         (expected.rows_of == 0 ? ", contiguous" : ", contiguous but for gaps between rows") +
         (expected.is_written ? " and writable" : "");
}

/// In bytes, of where it has to begin.
std::uintptr_t alignment_of(const found_array& found, const expectation& expected) {
  return std::max<std::uintptr_t>(static_cast<std::uintptr_t>(expected.alignment), found.type.bits / 8U);
}

/// Where nobody reads, anything is.
bool is_aligned(const found_array& found, const expectation& expected) {
  return found.is_empty() ||
         reinterpret_cast<std::uintptr_t>(found.data) % alignment_of(found, expected) == 0;
}

[[noreturn]] void refuse(const expectation& expected, const world& rank, const std::string& found) {
  throw invalid_argument{std::string{expected.name} + ": expected " + text_of(expected, rank) + "; found " +
                         found};
}

/// Of what is no array that we can take.
std::string why_no_array(nb::handle given) {
  if (is_numpy(given))
    return " of " + std::string{nb::str(nb::object{given.attr("dtype")}).c_str()} +
           ", which numpy gives to nobody";
  if (!nb::hasattr(given, "__dlpack__")) return ", which is no array of numpy and speaks no DLPack";
  try {
    given.attr("__dlpack__")();
  } catch (const nb::python_error& raised) {
    if (!raised.matches(PyExc_Exception)) throw;  // as Ctrl-C
    return std::string{", whose __dlpack__ raises "} + nb::inst_name(raised.value()).c_str() + ": " +
           nb::str(raised.value()).c_str();
  }
  return ", whose __dlpack__ gives no array";
}

}  // namespace

bool share_bytes(byte_rows a, byte_rows b) {
  const auto end = [](const byte_rows& rows) {
    return rows.begin + static_cast<std::uintptr_t>((rows.count - 1) * rows.apart + rows.bytes);
  };
  if (a.count == 0 || b.count == 0 || end(a) <= b.begin || end(b) <= a.begin) return false;
  if (a.count > b.count) std::swap(a, b);
  for (std::int64_t row = 0; row < a.count; ++row) {
    const auto first = static_cast<std::int64_t>(a.begin - b.begin) + row * a.apart;  // from where b begins
    const std::int64_t reached =
        first < b.bytes ? 0 : (first - b.bytes) / b.apart + 1;  // b's first row that ends behind it
    if (reached < b.count && reached * b.apart < first + a.bytes) return true;
  }
  return false;
}

void require_apart(const kept_array& written, std::span<const kept_array> others) {
  for (const kept_array& other : others)
    if (&other != &written && share_bytes(written.at(), other.at()))
      throw invalid_argument{std::string{written.name()} +
                             ": expected memory of its own, which this call writes; found some of " +
                             other.name() + "'s in it"};
}

void require_apart(std::span<const kept_array> used) {
  for (const kept_array& one : used)
    if (one.is_written()) require_apart(one, used);
}

array array_of(nb::handle given, const expectation& expected, const world& rank) {
  found_array found;
  if (!find(given, found, expected.is_written))
    refuse(expected, rank, nb::inst_name(given).c_str() + why_no_array(given));
  const auto type = element_of(found.type);
  const bool knows_type =
      type && std::find(expected.types.begin(), expected.types.end(), *type) != expected.types.end();
  const bool may_be_written = !expected.is_written || !found.is_read_only;
  if (!knows_type || !fits(found, expected.shape) || !is_reachable(found, rank) ||
      !lies_as(found, expected) || !may_be_written || !is_aligned(found, expected))
    refuse(expected, rank,
           name_of(found.type) + " " + shape_text(found) + " on " +
               device_text(found.device_type, found.device_index) +
               (lies_as(found, expected) ? "" : ", not contiguous") + (may_be_written ? "" : ", read-only") +
               (is_aligned(found, expected)
                    ? ""
                    : ", not aligned to " + std::to_string(alignment_of(found, expected)) + " bytes"));
  if (found.data == nullptr && !found.is_empty())
    refuse(expected, rank, name_of(found.type) + " " + shape_text(found) + " without memory");
  array result{const_cast<void*>(found.data), *type, expected.shape, std::move(found.memory), 0};
  result.shape.become(found.shape.data());
  if (expected.rows_of > 0 && !found.is_empty()) result.row_stride = *row_stride_of(found, expected.rows_of);
  result.memory.note(expected.name, byte_rows_of(found, expected, result.row_stride), expected.is_written);
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
