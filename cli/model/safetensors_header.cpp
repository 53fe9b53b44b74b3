#include "cli/model/safetensors_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "cli/model/json_text.hpp"

namespace baton::model::safetensors_detail {
namespace {

using nlohmann::json;

struct dtype_entry {
  dtype type;
  const char* name;
  std::size_t size;
};
constexpr std::array dtypes{
    dtype_entry{dtype::boolean, "BOOL", 1},    dtype_entry{dtype::u8, "U8", 1},
    dtype_entry{dtype::i8, "I8", 1},           dtype_entry{dtype::f8_e5m2, "F8_E5M2", 1},
    dtype_entry{dtype::f8_e4m3, "F8_E4M3", 1}, dtype_entry{dtype::i16, "I16", 2},
    dtype_entry{dtype::u16, "U16", 2},         dtype_entry{dtype::f16, "F16", 2},
    dtype_entry{dtype::bf16, "BF16", 2},       dtype_entry{dtype::i32, "I32", 4},
    dtype_entry{dtype::u32, "U32", 4},         dtype_entry{dtype::f32, "F32", 4},
    dtype_entry{dtype::f64, "F64", 8},         dtype_entry{dtype::i64, "I64", 8},
    dtype_entry{dtype::u64, "U64", 8}};

const dtype_entry& entry_of(dtype type) {
  return *std::find_if(dtypes.begin(), dtypes.end(), [&](const dtype_entry& d) { return d.type == type; });
}

const json& member(const json& info, const char* key, const std::string& tensor, const std::string& label) {
  const auto at = info.find(key);
  if (at == info.end()) defect(label, tensor, fmt::format("a member {}", key), shown(info));
  return *at;
}

dtype read_dtype(const json& value, const std::string& tensor, const std::string& label) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    for (const auto& d : dtypes) {
      if (text == d.name) return d.type;
    }
  }
  defect(label, tensor, "dtype BOOL, U8, I8, F8_E5M2, F8_E4M3, [IU]16, F16, BF16, [IU]32, F32, F64 or [IU]64",
         shown(value));
}

tensor_shape read_shape(const json& value, const std::string& tensor, const std::string& label) {
  constexpr std::size_t max_rank = 64;
  const auto is_extent = [](const json& e) {
    return e.is_number_unsigned() && e.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max();
  };
  if (!value.is_array() || value.size() > max_rank || !std::all_of(value.begin(), value.end(), is_extent)) {
    defect(label, tensor, "shape as an array of extents", shown(value));
  }
  return value.get<tensor_shape>();
}

struct offsets {
  std::uint64_t begin = 0, end = 0;
};

offsets read_offsets(const json& value, std::uint64_t data_bytes, const std::string& tensor,
                     const std::string& label) {
  if (!value.is_array() || value.size() != 2 || !value[0].is_number_unsigned() ||
      !value[1].is_number_unsigned()) {
    defect(label, tensor, "data_offsets as [begin, end]", shown(value));
  }
  const offsets at{value[0].get<std::uint64_t>(), value[1].get<std::uint64_t>()};
  if (at.begin > at.end || at.end > data_bytes) {
    defect(label, tensor, fmt::format("data_offsets within the {} bytes of tensor data", data_bytes),
           fmt::format("[{}, {}]", at.begin, at.end));
  }
  return at;
}

/// What follows the header in the file.
struct data_part {
  std::shared_ptr<const byte_source> file;
  std::uint64_t begin = 0;

  std::uint64_t size() const { return file->size() - begin; }
};

tensor_view read_tensor(const std::string& name, const json& info, const data_part& data) {
  const std::string& label = data.file->label();
  if (!info.is_object()) defect(label, name, "an object with dtype, shape and data_offsets", shown(info));
  tensor_view view{name, read_dtype(member(info, "dtype", name, label), name, label),
                   read_shape(member(info, "shape", name, label), name, label), data.file};
  const offsets at = read_offsets(member(info, "data_offsets", name, label), data.size(), name, label);
  std::uint64_t needed = 0;
  if (!byte_count(view.type, view.shape, needed)) {
    defect(label, name, "a shape whose bytes fit 63 bits", to_string(view.shape));
  }
  if (needed != at.end - at.begin) {
    defect(label, name,
           fmt::format("{} bytes for {} {}", needed, model::name(view.type), to_string(view.shape)),
           fmt::format("data_offsets [{}, {}] with {} bytes", at.begin, at.end, at.end - at.begin));
  }
  view.begin = data.begin + at.begin;
  view.size = needed;
  return view;
}

std::map<std::string, std::string> read_metadata(const json& value, const std::string& label) {
  const auto is_string = [](const json& v) { return v.is_string(); };
  if (!value.is_object() || !std::all_of(value.begin(), value.end(), is_string)) {
    defect(label, metadata_key, "an object of strings", shown(value));
  }
  return value.get<std::map<std::string, std::string>>();
}

/// The tensors tile the data exactly: sorted by offset, each begins where the one before ends.
void require_tiling(const header& head, const data_part& data) {
  std::vector<const tensor_view*> sorted;
  for (const auto& [name, view] : head.tensors) sorted.push_back(&view);
  std::sort(sorted.begin(), sorted.end(), [](const tensor_view* a, const tensor_view* b) {
    return std::pair{a->begin, a->size} < std::pair{b->begin, b->size};
  });
  const std::string& label = data.file->label();
  std::uint64_t end = data.begin;
  const tensor_view* before = nullptr;
  for (const auto* view : sorted) {
    if (view->begin != end) {
      defect(label, view->name,
             fmt::format("data that begins at {}, where {} ends", end - data.begin,
                         before ? "tensor " + clipped(before->name) : std::string{"nothing before it"}),
             fmt::format("data that begins at {}: {}", view->begin - data.begin,
                         view->begin < end ? "they overlap" : "a gap"));
    }
    end = view->begin + view->size;
    before = view;
  }
  if (end != data.file->size()) {
    defect(label, "", fmt::format("{} bytes of tensor data, as the header says", end - data.begin),
           fmt::format("{} bytes", data.size()));
  }
}

std::string header_text(const byte_source& file) {
  if (file.size() < length_bytes) {
    defect(file.label(), "", "at least 8 bytes, the length of the header",
           fmt::format("{} bytes", file.size()));
  }
  std::array<std::byte, length_bytes> framing{};
  file.read(0, framing);
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i)
    length |= std::to_integer<std::uint64_t>(framing[i]) << (8 * i);
  const std::uint64_t rest = file.size() - length_bytes;
  if (length > rest || length > max_header_bytes) {
    defect(file.label(), "", fmt::format("a header of at most {} bytes", std::min(rest, max_header_bytes)),
           fmt::format("a header length of {} bytes in a file of {}", length, file.size()));
  }
  std::string text(length, '\0');
  file.read(length_bytes, std::as_writable_bytes(std::span{text}));
  if (text.empty() || text.front() != '{') {
    defect(file.label(), "", "a JSON object as header",
           text.empty() ? "an empty header"
                        : fmt::format("a header that begins with byte {:#04x}",
                                      static_cast<unsigned char>(text.front())));
  }
  return text;
}

}  // namespace

bool byte_count(dtype type, const tensor_shape& shape, std::uint64_t& bytes) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  bytes = size_of(type);
  for (const std::int64_t extent : shape) {
    if (extent < 0) return false;
    const auto e = static_cast<std::uint64_t>(extent);
    if (e != 0 && bytes > most / e) return false;
    bytes *= e;
  }
  return true;
}

void defect(const std::string& label, std::string_view tensor, const std::string& expected,
            const std::string& found) {
  const std::string subject = tensor.empty() ? label : fmt::format("{}: tensor {}", label, clipped(tensor));
  throw bad_file{fmt::format("{}: expected {}, found {}. The file is damaged or incomplete; fetch it again",
                             subject, expected, found)};
}

header read_header(const std::shared_ptr<const byte_source>& file) {
  const std::string text = header_text(*file);
  const data_part data{file, length_bytes + text.size()};
  const json_limits limits{.bytes = max_header_bytes, .depth = 3};
  header head;
  bool has_metadata = false;
  parse_members(text, limits, file->label(), [&](std::string&& name, json&& info) {
    const bool is_metadata = name == metadata_key;
    if (is_metadata ? std::exchange(has_metadata, true) : head.tensors.contains(name))
      defect(file->label(), name, "every name once in the header", "the name twice");
    if (is_metadata) {
      head.metadata = read_metadata(info, file->label());
    } else {
      head.tensors.emplace(name, read_tensor(name, info, data));
    }
  });
  require_tiling(head, data);
  return head;
}

}  // namespace baton::model::safetensors_detail

namespace baton::model {

std::size_t size_of(dtype type) {
  return safetensors_detail::entry_of(type).size;
}
const char* name(dtype type) {
  return safetensors_detail::entry_of(type).name;
}

}  // namespace baton::model
