// baton/numeric.hpp and base/convert.hpp against the GPU's own conversions, bit for bit. NaNs need only stay
// NaNs: the hardware has one, we keep payload bits.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <bit>
#include <cmath>

#include "base/convert.hpp"
#include "baton/numeric.hpp"
#include "tests/gpu/gpu_case.hpp"

namespace baton {
namespace {

using test::both_sides;

class numeric_gpu : public test::gpu_case {};

struct conversions {
  std::uint16_t bf16;         // hardware
  std::uint16_t bf16_packed;  // base/convert.hpp on the device
  std::uint16_t fp16, fp16_packed;
  std::uint8_t e4m3;
  std::uint8_t e4m3_packed;
  std::uint8_t e2m1_packed;
};

__global__ void convert(const float* in, conversions* out, int n) {
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < n;
       i += static_cast<int>(gridDim.x * blockDim.x)) {
    const float v = in[i];
    out[i].bf16 = __bfloat16_as_ushort(__float2bfloat16_rn(v));
    out[i].bf16_packed = static_cast<std::uint16_t>(pack_bf16(0.0f, v) >> 16);
    out[i].fp16 = __half_as_ushort(__float2half_rn(v));
    out[i].fp16_packed = static_cast<std::uint16_t>(pack_fp16(0.0f, v) >> 16);
    out[i].e4m3 = __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
    const float eight[8] = {0, 0, v};
    out[i].e2m1_packed = static_cast<std::uint8_t>(pack_e2m1(eight) >> 8);
    out[i].e4m3_packed = static_cast<std::uint8_t>(pack_e4m3(0.0f, 0.0f, v, 0.0f) >> 16);
  }
}

std::vector<conversions> on_device(const std::vector<float>& values) {
  both_sides<float> in{values};
  both_sides<conversions> out{values.size()};
  convert<<<264, 256>>>(in.data(), out.data(), static_cast<int>(values.size()));
  test::finish();
  return {out.data(), out.data() + out.size()};
}

float as_float(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}

/// Every bf16, the float halfway to its successor, and that one's neighbours; then 4.2 million floats evenly
/// spread over all bit patterns (the stride is a prime).
std::vector<float> interesting_floats() {
  std::vector<float> values;
  for (std::uint32_t b = 0; b < 0x10000u; ++b)
    for (const std::uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      values.push_back(as_float(b << 16 | low));
  constexpr std::uint64_t stride = 1021;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += stride)
    values.push_back(as_float(static_cast<std::uint32_t>(bits)));
  return values;
}

/// Every float halfway between two e4m3, and both neighbours, with both signs.
std::vector<float> e4m3_ties() {
  std::vector<float> values;
  for (std::uint8_t b = 0; b < 0x7e; ++b) {
    const float low = static_cast<float>(float8_e4m3::from_bits(b));
    const float high = static_cast<float>(float8_e4m3::from_bits(static_cast<std::uint8_t>(b + 1)));
    const float middle = (low + high) / 2;
    for (const float v : {low, std::nextafter(middle, 0.0f), middle, std::nextafter(middle, 1e9f), high}) {
      values.push_back(v);
      values.push_back(-v);
    }
  }
  for (const float v : {448.0f, 464.0f, std::nextafter(464.0f, 0.0f), 480.0f, 1e30f, INFINITY}) {
    values.push_back(v);
    values.push_back(-v);
  }
  return values;
}

void expect_equal(const std::vector<float>& values) {
  const std::vector<conversions> device = on_device(values);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < values.size() && wrong < 10; ++i) {
    const float v = values[i];
    const std::uint16_t bf16 = bfloat16{v}.bits;
    const std::uint16_t fp16 = float16{v}.bits;
    const std::uint8_t e4m3 = float8_e4m3{v}.bits;
    const bool same =
        device[i].bf16_packed == device[i].bf16 && device[i].fp16_packed == device[i].fp16 &&
        device[i].e2m1_packed == float4_e2m1{v}.bits &&
        (std::isnan(v) ? (bf16 & 0x7fffu) > 0x7f80u && (device[i].bf16 & 0x7fffu) > 0x7f80u &&
                             (fp16 & 0x7fffu) > 0x7c00u && (device[i].fp16 & 0x7fffu) > 0x7c00u &&
                             (e4m3 & 0x7fu) == 0x7fu && (device[i].e4m3 & 0x7fu) == 0x7fu
                       : bf16 == device[i].bf16 && fp16 == device[i].fp16 && e4m3 == device[i].e4m3 &&
                             e4m3 == device[i].e4m3_packed);
    if (same) continue;
    ++wrong;
    ADD_FAILURE() << std::hexfloat << v << " (bits " << std::hex << std::bit_cast<std::uint32_t>(v)
                  << "): bf16 " << bf16 << ", device " << device[i].bf16 << " and " << device[i].bf16_packed
                  << "; fp16 " << fp16 << ", device " << device[i].fp16 << " and " << device[i].fp16_packed
                  << "; e4m3 " << +e4m3 << ", device " << +device[i].e4m3 << " and " << +device[i].e4m3_packed
                  << "; e2m1 " << +float4_e2m1{v}.bits << ", device " << +device[i].e2m1_packed;
  }
}

TEST_F(numeric_gpu, floats_round_to_the_same_bits_as_on_the_gpu) {
  expect_equal(interesting_floats());
}

TEST_F(numeric_gpu, ties_between_e4m3_and_saturation_are_the_gpus) {
  expect_equal(e4m3_ties());
}

/// As e4m3_ties; there are fewer than 2^15 numbers of each sign.
std::vector<float> fp16_ties() {
  std::vector<float> values;
  for (std::uint16_t b = 0; b < 0x7c00; ++b) {
    const float low = static_cast<float>(float16::from_bits(b));
    const float high = b + 1 == 0x7c00
                           ? 65536.0f
                           : static_cast<float>(float16::from_bits(static_cast<std::uint16_t>(b + 1)));
    const float middle = (low + high) / 2;
    for (const float v : {low, std::nextafter(middle, 0.0f), middle, std::nextafter(middle, 1e9f)}) {
      values.push_back(v);
      values.push_back(-v);
    }
  }
  return values;
}

TEST_F(numeric_gpu, ties_between_fp16_and_overflow_are_the_gpus) {
  expect_equal(fp16_ties());
}

__global__ void widen(float* from_bf16, float* from_bf16_word, float* from_fp16_word, float* from_e4m3) {
  for (std::uint32_t i = threadIdx.x; i < 0x10000u; i += blockDim.x) {
    from_bf16[i] = __bfloat162float(__ushort_as_bfloat16(static_cast<unsigned short>(i)));
    from_bf16_word[i] = high_bf16(i << 16 | 0x1234u);
    from_fp16_word[i] = widen_fp16(i << 16 | 0x1234u).high;
  }
  for (std::uint32_t i = threadIdx.x; i < 0x100u; i += blockDim.x) {
    __nv_fp8_e4m3 value;
    value.__x = static_cast<__nv_fp8_storage_t>(i);
    from_e4m3[i] = static_cast<float>(value);
  }
}

bool same_value(float a, float b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

TEST_F(numeric_gpu, every_bf16_fp16_and_e4m3_widens_to_the_same_float_as_on_the_gpu) {
  both_sides<float> from_bf16{0x10000}, from_word{0x10000}, from_fp16{0x10000}, from_e4m3{0x100};
  widen<<<1, 1024>>>(from_bf16.data(), from_word.data(), from_fp16.data(), from_e4m3.data());
  test::finish();
  for (std::uint32_t i = 0; i < 0x10000u; ++i) {
    const auto host = static_cast<float>(bfloat16::from_bits(static_cast<std::uint16_t>(i)));
    ASSERT_TRUE(same_value(host, from_bf16[i])) << "bf16 " << i;
    ASSERT_TRUE(same_value(host, from_word[i])) << "bf16 in a word " << i;
    const auto half = static_cast<float>(float16::from_bits(static_cast<std::uint16_t>(i)));
    ASSERT_TRUE(same_value(half, from_fp16[i])) << "fp16 in a word " << i;
  }
  for (std::uint32_t i = 0; i < 0x100u; ++i) {
    const auto host = static_cast<float>(float8_e4m3::from_bits(static_cast<std::uint8_t>(i)));
    ASSERT_TRUE(same_value(host, from_e4m3[i])) << "e4m3 " << i;
  }
}

}  // namespace
}  // namespace baton
