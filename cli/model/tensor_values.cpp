// Elements of tensors as the types that the model computes with.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/math.hpp"
#include "baton/device_facts.hpp"
#include "cli/model/safetensors.hpp"

namespace baton::model {
namespace {

[[noreturn]] void wrong_type(const tensor_view& tensor, const char* expected) {
  throw bad_file{fmt::format("{}: tensor {}: expected dtype {}, found {}", tensor.file(), tensor.name,
                             expected, name(tensor.type))};
}

float half_to_float(std::uint16_t h) {
  const int exponent = (h >> 10) & 0x1f;
  const auto mantissa = static_cast<std::uint32_t>(h & 0x3ffu);
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t widened = exponent == 0x1f ? 0xffu : static_cast<std::uint32_t>(exponent + 112);
  return std::bit_cast<float>(sign | widened << 23 | mantissa << 13);
}

/// Small ones are not worth a look at the machine's memory.
void require_room(const tensor_view& tensor, std::size_t bytes) {
  constexpr std::size_t small = 16 << 20;
  if (bytes < small) return;
  require_host_memory(bytes,
                      {fmt::format("tensor {} of {}", tensor.name, tensor.file()), "use a smaller model"});
}

/// Elements from `first` on. Pieces of the file, so that no tensor stands in memory twice; elements of them, as they may be
/// unaligned.
template <class Stored, class Wanted, class Convert>
void convert_some(const tensor_view& tensor, std::uint64_t first, std::span<Wanted> to, Convert convert) {
  constexpr std::size_t piece = (1 << 20) / sizeof(Stored);
  std::vector<Stored> stored(smaller(piece, to.size()));
  while (!to.empty()) {
    const std::size_t n = smaller(piece, to.size());
    tensor.read(first * sizeof(Stored), std::as_writable_bytes(std::span{stored}.first(n)));
    std::transform(stored.begin(), stored.begin() + static_cast<std::ptrdiff_t>(n), to.begin(), convert);
    first += n;
    to = to.subspan(n);
  }
}

template <class Stored, class Wanted, class Convert>
std::vector<Wanted> convert_all(const tensor_view& tensor, Convert convert) {
  const auto count = static_cast<std::size_t>(tensor.count());
  require_room(tensor, count * sizeof(Wanted));
  std::vector<Wanted> values(count);
  convert_some<Stored>(tensor, 0, std::span{values}, convert);
  return values;
}

/// Of a tensor whose elements are stored so.
template <class Stored>
std::vector<Stored> as_stored(const tensor_view& tensor) {
  const auto count = static_cast<std::size_t>(tensor.count());
  require_room(tensor, count * sizeof(Stored));
  std::vector<Stored> values(count);
  tensor.read(0, std::as_writable_bytes(std::span{values}));
  return values;
}

float from_bf16(std::uint16_t bits) {
  return static_cast<float>(bfloat16::from_bits(bits));
}

}  // namespace

void read_floats(const tensor_view& tensor, std::uint64_t first, std::span<float> to) {
  switch (tensor.type) {
    case dtype::f32:
      return convert_some<float>(tensor, first, to, [](float v) { return v; });
    case dtype::bf16:
      return convert_some<std::uint16_t>(tensor, first, to, from_bf16);
    case dtype::f16:
      return convert_some<std::uint16_t>(tensor, first, to, half_to_float);
    default:
      wrong_type(tensor, "F32, BF16 or F16");
  }
}

std::vector<float> to_float(const tensor_view& tensor) {
  const auto count = static_cast<std::size_t>(tensor.count());
  require_room(tensor, count * sizeof(float));
  std::vector<float> values(count);
  read_floats(tensor, 0, values);
  return values;
}

std::vector<bfloat16> to_bfloat16(const tensor_view& tensor) {
  switch (tensor.type) {
    case dtype::f32:
      return convert_all<float, bfloat16>(tensor, [](float v) { return bfloat16{v}; });
    case dtype::bf16:
      return as_stored<bfloat16>(tensor);
    case dtype::f16:
      return convert_all<std::uint16_t, bfloat16>(tensor,
                                                  [](std::uint16_t v) { return bfloat16{half_to_float(v)}; });
    default:
      wrong_type(tensor, "BF16, F32 or F16");
  }
}

std::vector<std::int32_t> to_int32(const tensor_view& tensor) {
  const auto widen = [](auto v) { return static_cast<std::int32_t>(v); };
  switch (tensor.type) {
    case dtype::u8:
      return convert_all<std::uint8_t, std::int32_t>(tensor, widen);
    case dtype::i8:
      return convert_all<std::int8_t, std::int32_t>(tensor, widen);
    case dtype::i16:
      return convert_all<std::int16_t, std::int32_t>(tensor, widen);
    case dtype::u16:
      return convert_all<std::uint16_t, std::int32_t>(tensor, widen);
    case dtype::i32:
      return convert_all<std::int32_t, std::int32_t>(tensor, widen);
    case dtype::u32:
      return convert_all<std::uint32_t, std::int32_t>(tensor, [&](std::uint32_t v) {
        if (v > static_cast<std::uint32_t>(std::numeric_limits<std::int32_t>::max())) {
          throw bad_file{fmt::format("{}: tensor {}: expected values below 2^31, found {}", tensor.file(),
                                     tensor.name, v)};
        }
        return static_cast<std::int32_t>(v);
      });
    default:
      wrong_type(tensor, "U8, I8, I16, U16, I32 or U32");
  }
}

}  // namespace baton::model
