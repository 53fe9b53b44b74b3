#include "cli/model/quantise_checkpoint.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "base/weight_block.hpp"
#include "cli/model/fp8_tensors.hpp"
#include "cli/model/input_file.hpp"
#include "cli/model/json_text.hpp"
#include "cli/model/output_file.hpp"
#include "cli/model/shards.hpp"

namespace baton::model {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t strip_columns = 1 << 16;  // of 128 rows; a multiple of 128

/// Not what older files carry along beside the matrices.
bool is_quantised_here(const tensor_view& tensor) {
  return is_of_expert(tensor.name) && tensor.name.ends_with("_proj.weight");
}

/// What is read and what is written stay open until all of it is there.
void require_open_files(std::size_t shards) {
  constexpr std::size_t most = 1022, others = 32;  // with index and config as many as output_file remembers
  if (shards > most) throw bad_file{fmt::format("{} shards: quantize takes {} at most", shards, most)};
  struct rlimit open {};
  if (::getrlimit(RLIMIT_NOFILE, &open) != 0 || 2 * shards + others <= open.rlim_cur) return;
  throw bad_file{fmt::format("{} shards need {} open files, {} are allowed; raise `ulimit -n`", shards,
                             2 * shards + others, open.rlim_cur)};
}

/// An empty folder, which goes again unless something is left in it.
class output_folder {
 public:
  output_folder(const fs::path& path, const fs::path& input) : path_{path} {
    const std::string label = "--output " + path.string();
    std::error_code ignored;
    if (fs::equivalent(path, input, ignored))
      throw invalid_argument{label + ": is the model itself; name another folder"};
    const auto status = fs::symlink_status(path, ignored);
    if (fs::is_symlink(status)) throw bad_file{label + ": is a symbolic link, expected a folder or nothing"};
    if (fs::exists(status)) {
      require_empty(label, fs::is_directory(status));
      return;
    }
    std::error_code problem;
    is_made_ = fs::create_directory(path, problem);
    if (!is_made_) throw bad_file{fmt::format("{}: cannot be made: {}", label, problem.message())};
  }
  output_folder(const output_folder&) = delete;
  output_folder& operator=(const output_folder&) = delete;
  ~output_folder() {
    std::error_code ignored;
    if (is_made_) fs::remove(path_, ignored);  // which a folder with files in it refuses
  }

 private:
  void require_empty(const std::string& label, bool is_folder) const {
    if (!is_folder) throw bad_file{label + ": expected a folder or nothing there, found something else"};
    std::error_code problem;
    const fs::directory_iterator first{path_, problem};
    if (problem) throw bad_file{fmt::format("{}: cannot be read: {}", label, problem.message())};
    if (first != fs::directory_iterator{})
      throw bad_file{fmt::format("{}: expected an empty folder or nothing there, found {} in it", label,
                                 first->path().filename().string())};
  }

  fs::path path_;
  bool is_made_ = false;
};

/// Rows [row, row + rows) and columns [column, column + columns) of a matrix, as they go into FP8.
struct strip {
  std::int64_t row = 0, rows = 0, column = 0, columns = 0;
  std::vector<float> weights = {};       // [rows, columns]
  std::vector<float8_e4m3> values = {};  // [rows, columns]
  std::vector<float> scales = {};        // [ceil(columns / 128)]

  /// visit(where in the tensor, where in the strip, how many) of values that follow each other in both.
  template <class Visit>
  void for_each_run(const tensor_view& tensor, Visit visit) const {
    const std::int64_t k = tensor.shape[1], step = columns == k ? rows : 1;
    for (std::int64_t r = 0; r < rows; r += step)
      visit(static_cast<std::uint64_t>((row + r) * k + column), static_cast<std::size_t>(r * columns),
            static_cast<std::size_t>(step * columns));
  }
};

void read(strip& s, const tensor_view& from) {
  s.weights.resize(static_cast<std::size_t>(s.rows * s.columns));
  s.for_each_run(from, [&](std::uint64_t there, std::size_t here, std::size_t count) {
    read_floats(from, there, std::span{s.weights}.subspan(here, count));
  });
  const auto bad =
      std::find_if(s.weights.begin(), s.weights.end(), [](float v) { return !std::isfinite(v); });
  if (bad == s.weights.end()) return;
  const std::int64_t at = bad - s.weights.begin();
  throw bad_file{fmt::format("{}: tensor {}: expected finite weights, found {} at [{}, {}]", from.file(),
                             from.name, *bad, s.row + at / s.columns, s.column + at % s.columns)};
}

/// One block: `weights` and `values` are its first, `stride` lies between rows.
float quantise(const float* weights, float8_e4m3* values, std::int64_t rows, std::int64_t columns,
               std::int64_t stride) {
  float most = 0;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) most = larger(most, std::fabs(weights[r * stride + c]));
  const float scale = weight_scale(most);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      values[r * stride + c] = scaled_down(weights[r * stride + c], scale);
  return scale;
}

void quantise(strip& s) {
  s.values.resize(s.weights.size());
  s.scales.clear();
  for (std::int64_t first = 0; first < s.columns; first += weight_block)
    s.scales.push_back(quantise(s.weights.data() + first, s.values.data() + first, s.rows,
                                smaller<std::int64_t>(weight_block, s.columns - first), s.columns));
}

void write(const strip& s, const tensor_view& from, safetensors_writer& to) {
  s.for_each_run(from, [&](std::uint64_t there, std::size_t here, std::size_t count) {
    to.write(from.name, there, std::as_bytes(std::span{s.values}.subspan(here, count)));
  });
  const std::int64_t of_row = ceil_div<std::int64_t>(from.shape[1], weight_block);
  const std::int64_t first = s.row / weight_block * of_row + s.column / weight_block;
  to.write(scale_name(from.name), static_cast<std::uint64_t>(first) * sizeof(float),
           std::as_bytes(std::span{s.scales}));
}

/// Counts what has been read.
class reading {
 public:
  reading(const quantise_progress& report, std::uint64_t all) : report_{report}, all_{all} {}
  void add(std::uint64_t bytes) {
    done_ += bytes;
    if (report_) report_(done_, all_);
  }

 private:
  const quantise_progress& report_;
  std::uint64_t done_ = 0, all_;
};

void write_in_fp8(const tensor_view& from, safetensors_writer& to, reading& progress) {
  strip s;
  for (s.row = 0; s.row < from.shape[0]; s.row += weight_block) {
    s.rows = smaller<std::int64_t>(weight_block, from.shape[0] - s.row);
    for (s.column = 0; s.column < from.shape[1]; s.column += strip_columns) {
      s.columns = smaller(strip_columns, from.shape[1] - s.column);
      read(s, from);
      quantise(s);
      write(s, from, to);
      progress.add(s.weights.size() * size_of(from.type));
    }
  }
}

void copy(const tensor_view& from, safetensors_writer& to, reading& progress) {
  std::vector<std::byte> piece(smaller<std::uint64_t>(1 << 20, from.size));
  for (std::uint64_t at = 0; at < from.size; at += piece.size()) {
    const auto bytes = std::span{piece}.first(smaller<std::uint64_t>(piece.size(), from.size - at));
    from.read(at, bytes);
    to.write(from.name, at, bytes);
    progress.add(bytes.size());
  }
}

/// In the order of the file, which is how disks like to be read.
std::vector<const tensor_view*> tensors_of(const safetensors_file& file) {
  std::vector<const tensor_view*> tensors;
  for (const auto& [name, view] : file.tensors()) tensors.push_back(&view);
  std::sort(tensors.begin(), tensors.end(), [](const tensor_view* a, const tensor_view* b) {
    return std::pair{a->begin, a->size} < std::pair{b->begin, b->size};
  });
  return tensors;
}

std::vector<tensor_plan> plans_of(const std::vector<const tensor_view*>& tensors) {
  std::vector<tensor_plan> plans;
  for (const tensor_view* t : tensors) {
    plans.push_back({t->name, is_quantised_here(*t) ? dtype::f8_e4m3 : t->type, t->shape});
    if (!is_quantised_here(*t)) continue;
    plans.push_back({scale_name(t->name), dtype::f32, scale_shape(t->shape)});
  }
  return plans;
}

void write_shard(const safetensors_file& from, output_file& to, reading& progress, quantised_checkpoint& done,
                 weight_map& map) {
  const std::string name = fs::path{from.label()}.filename().string();
  const auto tensors = tensors_of(from);
  const auto plans = plans_of(tensors);
  for (const tensor_plan& plan : plans) {
    map.emplace(plan.name, name);
    std::uint64_t bytes = size_of(plan.type);
    for (const std::int64_t extent : plan.shape) bytes *= static_cast<std::uint64_t>(extent);
    done.bytes_after += bytes;
  }
  safetensors_writer writer{to, plans, from.metadata()};
  for (const tensor_view* t : tensors) {
    is_quantised_here(*t) ? write_in_fp8(*t, writer, progress) : copy(*t, writer, progress);
    done.bytes_before += t->size;
    ++done.tensors;
    done.matrices += is_quantised_here(*t);
  }
  writer.require_whole();
  ++done.files;
}

/// Of the model, with what Hugging Face's DeepSeek-V3 says of its weights.
std::string config_text(const checkpoint& from) {
  const fs::path path = from.directory() / "config.json";
  nlohmann::json config =
      parse_json(read_text(path, max_config_bytes), {.bytes = max_config_bytes}, path.string());
  std::set<std::string> others{"lm_head"};
  constexpr std::string_view weight = ".weight";
  for (const auto& [name, view] : from.shards().tensors)
    if (!is_quantised_here(*view) && view->shape.size() == 2 && name.ends_with(weight))
      others.emplace(name.substr(0, name.size() - weight.size()));
  config["quantization_config"] = {{"quant_method", "fp8"},
                                   {"fmt", "e4m3"},
                                   {"activation_scheme", "dynamic"},
                                   {"weight_block_size", {weight_block, weight_block}},
                                   {"modules_to_not_convert", others}};
  return config.dump(2) + '\n';
}

}  // namespace

quantised_checkpoint quantise_checkpoint(const checkpoint& from, const fs::path& to,
                                         const quantise_progress& report) {
  if (from.config().allows_fp8)
    throw invalid_argument{fmt::format("{}: has a quantization_config already; quantize takes bf16 and f32",
                                       (from.directory() / "config.json").string())};
  require_open_files(from.shards().files.size());
  const output_folder folder{to, from.directory()};
  const std::string config = config_text(from);
  quantised_checkpoint done;
  reading progress{report, from.weight_bytes()};
  weight_map map;
  std::deque<output_file> files;
  for (const safetensors_file& shard : from.shards().files) {
    output_file& file = files.emplace_back(to / fs::path{shard.label()}.filename(), "--output");
    write_shard(shard, file, progress, done, map);
  }
  if (is_there(from.directory() / index_name)) {
    const nlohmann::json index{{"metadata", {{"total_size", done.bytes_after}}}, {"weight_map", map}};
    files.emplace_back(to / index_name, "--output").write(index.dump(2) + '\n');
  }
  files.emplace_back(to / "config.json", "--output").write(config);
  for (output_file& file : files) file.finish();
  for (output_file& file : files) file.publish();
  return done;
}

}  // namespace baton::model
