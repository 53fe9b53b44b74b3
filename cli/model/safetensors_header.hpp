#pragma once
// The JSON header of a safetensors file, checked in full before any tensor is looked at.
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "cli/model/safetensors.hpp"

namespace baton::model::safetensors_detail {

inline constexpr std::string_view metadata_key = "__metadata__";
inline constexpr std::size_t length_bytes = 8;                  // the header's length, in front of it
inline constexpr std::uint64_t max_header_bytes = 100'000'000;  // the format's own limit

struct header {
  std::map<std::string, tensor_view> tensors;
  std::map<std::string, std::string> metadata;
};

/// Takes time and memory in proportion to the header. @throws bad_file  on any defect
header read_header(const std::shared_ptr<const byte_source>& file);

/// Elements of `shape` times the element size. False: it does not fit 63 bits or an extent is negative.
bool byte_count(dtype type, const tensor_shape& shape, std::uint64_t& bytes);

/// "1.safetensors: tensor a: expected X, found Y; fetch ..." without the tensor where there is none.
[[noreturn]] void defect(const std::string& label, std::string_view tensor, const std::string& expected,
                         const std::string& found);

}  // namespace baton::model::safetensors_detail
