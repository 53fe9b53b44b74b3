#include "cli/model/safetensors_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

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

/// Error texts quote the file; a damaged one may hold megabytes without a break.
std::string clip(std::string_view text) {
  constexpr std::size_t longest = 120;
  return text.size() <= longest ? std::string{text} : fmt::format("{}...", text.substr(0, longest));
}

/// Value as text for an error message, whatever it is.
std::string quote(const json& value) {
  return clip(value.dump(-1, ' ', true, json::error_handler_t::replace));
}

/// Refuses what nlohmann's parser would let pass: a key twice in one object (the last would win), and
/// nesting.
class strict_keys {
 public:
  explicit strict_keys(const std::string& label) : label_{label} {}

  bool operator()(int depth, json::parse_event_t event, const json& parsed) {
    if (depth > 3) defect(label_, "", "a header nested at most 3 deep", "deeper nesting");
    const auto level = static_cast<std::size_t>(depth);
    if (event == json::parse_event_t::object_start) seen_[level].clear();
    if (event == json::parse_event_t::key && !seen_[level - 1].insert(parsed.get<std::string>()).second) {
      defect(label_, parsed.get<std::string>(), "every name once in the header", "the name twice");
    }
    return true;
  }

 private:
  const std::string& label_;
  std::array<std::set<std::string>, 4> seen_;
};

json parse_json(std::string_view text, const std::string& label) {
  if (text.empty() || text.front() != '{') {
    defect(label, "", "a JSON object as header",
           text.empty() ? "an empty header"
                        : fmt::format("a header that begins with byte {:#04x}",
                                      static_cast<unsigned char>(text.front())));
  }
  try {
    return json::parse(text.begin(), text.end(), strict_keys{label});
  } catch (const json::exception& e) {
    defect(label, "", "a JSON header", clip(e.what()));
  }
}

const json& member(const json& info, const char* key, const std::string& tensor, const std::string& label) {
  const auto at = info.find(key);
  if (at == info.end()) defect(label, tensor, fmt::format("a member {}", key), quote(info));
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
         quote(value));
}

tensor_shape read_shape(const json& value, const std::string& tensor, const std::string& label) {
  constexpr std::size_t max_rank = 64;
  const auto is_extent = [](const json& e) {
    return e.is_number_unsigned() && e.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max();
  };
  if (!value.is_array() || value.size() > max_rank || !std::all_of(value.begin(), value.end(), is_extent)) {
    defect(label, tensor, "shape as an array of extents", quote(value));
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
    defect(label, tensor, "data_offsets as [begin, end]", quote(value));
  }
  const offsets at{value[0].get<std::uint64_t>(), value[1].get<std::uint64_t>()};
  if (at.begin > at.end || at.end > data_bytes) {
    defect(label, tensor, fmt::format("data_offsets within the {} bytes of tensor data", data_bytes),
           fmt::format("[{}, {}]", at.begin, at.end));
  }
  return at;
}

tensor_view read_tensor(const std::string& name, const json& info, std::span<const std::byte> data,
                        const std::string& label) {
  if (!info.is_object()) defect(label, name, "an object with dtype, shape and data_offsets", quote(info));
  tensor_view view{label,
                   name,
                   read_dtype(member(info, "dtype", name, label), name, label),
                   read_shape(member(info, "shape", name, label), name, label),
                   {}};
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
  view.bytes = data.subspan(at.begin, at.end - at.begin);
  return view;
}

std::map<std::string, std::string> read_metadata(const json& value, const std::string& label) {
  const auto is_string = [](const json& v) { return v.is_string(); };
  if (!value.is_object() || !std::all_of(value.begin(), value.end(), is_string)) {
    defect(label, metadata_key, "an object of strings", quote(value));
  }
  return value.get<std::map<std::string, std::string>>();
}

/// The tensors tile the data exactly: sorted by offset, each begins where the one before ends.
void require_tiling(const header& head, std::span<const std::byte> data, const std::string& label) {
  std::vector<const tensor_view*> sorted;
  for (const auto& [name, view] : head.tensors) sorted.push_back(&view);
  const auto begin_of = [&](const tensor_view* v) {
    return static_cast<std::size_t>(v->bytes.data() - data.data());
  };
  std::sort(sorted.begin(), sorted.end(), [&](const tensor_view* a, const tensor_view* b) {
    return std::pair{begin_of(a), a->bytes.size()} < std::pair{begin_of(b), b->bytes.size()};
  });
  std::size_t end = 0;
  const tensor_view* before = nullptr;
  for (const auto* view : sorted) {
    const std::size_t begin = begin_of(view);
    if (begin != end) {
      defect(label, view->name,
             fmt::format("data that begins at {}, where {} ends", end,
                         before ? "tensor " + clip(before->name) : std::string{"nothing before it"}),
             fmt::format("data that begins at {}: {}", begin, begin < end ? "they overlap" : "a gap"));
    }
    end = begin + view->bytes.size();
    before = view;
  }
  if (end != data.size()) {
    defect(label, "", fmt::format("{} bytes of tensor data, as the header says", end),
           fmt::format("{} bytes", data.size()));
  }
}

std::string_view header_text(std::span<const std::byte> file, const std::string& label) {
  if (file.size() < length_bytes) {
    defect(label, "", "at least 8 bytes, the length of the header", fmt::format("{} bytes", file.size()));
  }
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) length |= std::to_integer<std::uint64_t>(file[i]) << (8 * i);
  const std::uint64_t rest = file.size() - length_bytes;
  if (length > rest || length > max_header_bytes) {
    defect(label, "", fmt::format("a header of at most {} bytes", std::min(rest, max_header_bytes)),
           fmt::format("a header length of {} bytes in a file of {}", length, file.size()));
  }
  return {reinterpret_cast<const char*>(file.data()) + length_bytes, static_cast<std::size_t>(length)};
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
  const std::string subject = tensor.empty() ? label : fmt::format("{}: tensor {}", label, clip(tensor));
  throw bad_file{fmt::format("{}: expected {}, found {}. The file is damaged or incomplete; fetch it again",
                             subject, expected, found)};
}

header read_header(std::span<const std::byte> file, const std::string& label) {
  const std::string_view text = header_text(file, label);
  const auto data = file.subspan(length_bytes + text.size());
  const json parsed = parse_json(text, label);
  header head;
  for (const auto& [name, info] : parsed.items()) {
    if (name == metadata_key) {
      head.metadata = read_metadata(info, label);
    } else {
      head.tensors.emplace(name, read_tensor(name, info, data, label));
    }
  }
  require_tiling(head, data, label);
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
