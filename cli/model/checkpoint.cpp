#include "cli/model/checkpoint.hpp"

#include <fmt/format.h>

#include <cstring>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include "base/math.hpp"
#include "baton/device_facts.hpp"
#include "cli/model/fp8_tensors.hpp"
#include "cli/model/input_file.hpp"
#include "cli/model/json_text.hpp"
#include "cli/model/shards.hpp"

namespace baton::model {

struct checkpoint::state {
  std::filesystem::path directory;
  model_config config;
  shard_set shards;
  std::size_t weight_bytes = 0, dense_bytes = 0;

  const tensor_view& tensor(const std::string& name) const { return *shards.tensors.at(name); }
};

namespace {

const std::string embed_name = "model.embed_tokens.weight";
const std::string head_name = "lm_head.weight";
const std::string norm_name = "model.norm.weight";

std::string layer_name(int layer, const char* part) {
  return fmt::format("model.layers.{}.{}.weight", layer, part);
}
std::string expert_name(int layer, int expert, const char* part) {
  return fmt::format("model.layers.{}.mlp.experts.{}.{}_proj.weight", layer, expert, part);
}

/// Compares the tensors found with what the config calls for, one by one.
class tensor_check {
 public:
  tensor_check(const shard_set& shards, std::string directory, bool allows_fp8)
      : tensors_{shards.tensors}, directory_{std::move(directory)}, allows_fp8_{allows_fp8} {}

  void expect(const std::string& name, const tensor_shape& shape) {
    const tensor_view& view = with_shape(name, shape);
    if (view.type != dtype::bf16 && view.type != dtype::f32) {
      throw bad_file{fmt::format("{}: tensor {}: expected dtype BF16 or F32, found {}", view.file(), name,
                                 model::name(view.type))};
    }
  }

  /// The same, and where the config has it so, FP8 with its scales. Returns whether it is.
  bool expect_projection(const std::string& name, const tensor_shape& shape) {
    const tensor_view& view = with_shape(name, shape);
    if (view.type != dtype::f8_e4m3) {
      expect(name, shape);
      return false;
    }
    if (!allows_fp8_) {
      throw bad_file{
          fmt::format("{}: tensor {}: expected dtype BF16 or F32, as config.json has no "
                      "quantization_config, found F8_E4M3",
                      view.file(), name)};
    }
    expect(scale_name(name), scale_shape(shape));
    return true;
  }

  /// Matrices of an expert; those of one layer are of one kind, by which they are loaded.
  void expect_expert(const std::string& name, const tensor_shape& shape, const std::string& first) {
    const bool is_fp8 = expect_projection(name, shape);
    if (is_fp8 == (tensors_.at(first)->type == dtype::f8_e4m3)) return;
    throw bad_file{
        fmt::format("{}: tensor {}: expected the dtype of {}, {}, found {}; the experts of a layer "
                    "are in FP8 together or not at all",
                    tensors_.at(name)->file(), name, first, model::name(tensors_.at(first)->type),
                    model::name(tensors_.at(name)->type))};
  }

  /// What is left must be derived data that older files carry along.
  void expect_nothing_else() const {
    for (const auto& [name, view] : tensors_) {
      if (expected_.contains(name) || name.ends_with("rotary_emb.inv_freq")) continue;
      throw bad_file{
          fmt::format("{}: tensor {} {}: expected no such tensor, as config.json does not explain it; "
                      "config and weights belong to different models",
                      view->file(), clipped(name), to_string(view->shape))};
    }
  }

 private:
  const tensor_view& with_shape(const std::string& name, const tensor_shape& shape) {
    const auto at = tensors_.find(name);
    if (at == tensors_.end()) {
      throw bad_file{
          fmt::format("{}: expected a tensor {} {}, as config.json says, found none among {} tensors",
                      directory_, name, to_string(shape), tensors_.size())};
    }
    const tensor_view& view = *at->second;
    if (view.shape != shape) {
      throw bad_file{fmt::format("{}: tensor {}: expected shape {}, as config.json says, found {}",
                                 view.file(), name, to_string(shape), to_string(view.shape))};
    }
    expected_.insert(name);
    return view;
  }

  const std::map<std::string_view, const tensor_view*>& tensors_;
  std::string directory_;
  bool allows_fp8_;
  std::set<std::string, std::less<>> expected_;
};

void expect_layer(tensor_check& check, const model_config& c, int layer) {
  const std::int64_t hidden = c.hidden_size, inter = c.moe_intermediate_size;
  const std::int64_t q = std::int64_t{c.num_attention_heads} * c.head_dim;
  const std::int64_t kv = std::int64_t{c.num_key_value_heads} * c.head_dim;
  check.expect(layer_name(layer, "input_layernorm"), {hidden});
  check.expect(layer_name(layer, "post_attention_layernorm"), {hidden});
  check.expect_projection(layer_name(layer, "self_attn.q_proj"), {q, hidden});
  check.expect_projection(layer_name(layer, "self_attn.k_proj"), {kv, hidden});
  check.expect_projection(layer_name(layer, "self_attn.v_proj"), {kv, hidden});
  check.expect_projection(layer_name(layer, "self_attn.o_proj"), {hidden, q});
  check.expect(layer_name(layer, "self_attn.q_norm"), {c.head_dim});
  check.expect(layer_name(layer, "self_attn.k_norm"), {c.head_dim});
  check.expect(layer_name(layer, "mlp.gate"), {c.num_experts, hidden});
  const std::string first = expert_name(layer, 0, "gate");
  for (int e = 0; e < c.num_experts; ++e) {
    check.expect_expert(expert_name(layer, e, "gate"), {inter, hidden}, first);
    check.expect_expert(expert_name(layer, e, "up"), {inter, hidden}, first);
    check.expect_expert(expert_name(layer, e, "down"), {hidden, inter}, first);
  }
}

bool same_values(const tensor_view& a, const tensor_view& b) {
  if (a.type != b.type || a.size != b.size) return false;
  std::vector<std::byte> piece_a(1 << 20), piece_b(piece_a.size());
  for (std::uint64_t at = 0; at < a.size; at += piece_a.size()) {
    const auto n = static_cast<std::size_t>(smaller<std::uint64_t>(piece_a.size(), a.size - at));
    a.read(at, std::span{piece_a}.first(n));
    b.read(at, std::span{piece_b}.first(n));
    if (std::memcmp(piece_a.data(), piece_b.data(), n) != 0) return false;
  }
  return true;
}

/// Tied models may carry the head all the same; then it must be the embeddings.
void expect_head(tensor_check& check, const model_config& c, const shard_set& shards) {
  const bool is_stored = shards.tensors.count(head_name) != 0;
  if (!c.tie_word_embeddings || is_stored) check.expect(head_name, {c.vocab_size, c.hidden_size});
  if (!c.tie_word_embeddings || !is_stored) return;
  const tensor_view& head = *shards.tensors.at(head_name);
  if (!same_values(head, *shards.tensors.at(embed_name))) {
    throw bad_file{
        fmt::format("{}: tensor {}: expected the values of {}, as config.json has tie_word_embeddings, "
                    "found others",
                    head.file(), head_name, embed_name)};
  }
}

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

bool is_of_expert(std::string_view tensor) {
  return tensor.find(".mlp.experts.") != tensor.npos;
}

checkpoint checkpoint::open(const std::filesystem::path& directory) {
  const bool has_something = is_there(directory);
  std::error_code ignored;
  if (!std::filesystem::is_directory(directory, ignored)) {
    throw bad_file{fmt::format("{}: expected a directory with config.json and safetensors files, found {}",
                               directory.string(), has_something ? "a file" : "nothing")};
  }
  auto s = std::make_shared<state>();
  s->directory = directory;
  const auto config_path = directory / "config.json";
  s->config = parse_config(read_text(config_path, max_config_bytes), config_path.string());
  s->shards = open_shards(directory);
  tensor_check check{s->shards, directory.string(), s->config.allows_fp8};
  check.expect(embed_name, {s->config.vocab_size, s->config.hidden_size});
  for (int layer = 0; layer < s->config.num_hidden_layers; ++layer) expect_layer(check, s->config, layer);
  check.expect(norm_name, {s->config.hidden_size});
  expect_head(check, s->config, s->shards);
  check.expect_nothing_else();
  for (const auto& [name, view] : s->shards.tensors) {
    s->weight_bytes += view->size;
    if (!is_of_expert(name)) s->dense_bytes += view->count() * sizeof(float);
  }
  return checkpoint{std::move(s)};
}

const model_config& checkpoint::config() const {
  return state_->config;
}
const std::filesystem::path& checkpoint::directory() const {
  return state_->directory;
}
const shard_set& checkpoint::shards() const {
  return state_->shards;
}
std::size_t checkpoint::weight_bytes() const {
  return state_->weight_bytes;
}

std::size_t checkpoint::dense_bytes() const {
  return state_->dense_bytes;
}

std::vector<float> checkpoint::embeddings() const {
  return to_float(state_->tensor(embed_name));
}
std::vector<float> checkpoint::head() const {
  return to_float(state_->tensor(config().tie_word_embeddings ? embed_name : head_name));
}
std::vector<float> checkpoint::final_norm() const {
  return to_float(state_->tensor(norm_name));
}

layer_weights checkpoint::layer(int layer) const {
  const auto read = [&](const char* part) {
    const std::string name = layer_name(layer, part);
    const tensor_view& tensor = state_->tensor(name);
    return tensor.type == dtype::f8_e4m3 ? to_float(tensor, state_->tensor(scale_name(name)))
                                         : to_float(tensor);
  };
  require_layer(layer);
  layer_weights w;
  w.input_norm = read("input_layernorm");
  w.post_attention_norm = read("post_attention_layernorm");
  w.q = read("self_attn.q_proj");
  w.k = read("self_attn.k_proj");
  w.v = read("self_attn.v_proj");
  w.o = read("self_attn.o_proj");
  w.q_norm = read("self_attn.q_norm");
  w.k_norm = read("self_attn.k_norm");
  return w;
}

router checkpoint::layer_router(int layer) const {
  require_layer(layer);
  const auto& c = config();
  return router{{c.num_experts, c.hidden_size, c.num_experts_per_tok, c.norm_topk_prob},
                to_float(state_->tensor(layer_name(layer, "mlp.gate")))};
}

expert_matrices checkpoint::experts(int layer, int first, int count) const {
  require_layer(layer);
  const auto& c = config();
  if (first < 0 || count < 0 || first > c.num_experts - count) {
    throw invalid_argument{fmt::format("experts: expected a range within [0, {}), found [{}, {} + {})",
                                       c.num_experts, first, first, count)};
  }
  expert_matrices m{count, c.hidden_size, c.moe_intermediate_size, {}, {}, {}};
  if (state_->tensor(expert_name(layer, 0, "gate")).type == dtype::f8_e4m3)
    m.format = weight_format::block_fp8;
  const auto total = static_cast<std::size_t>(count) * static_cast<std::size_t>(m.hidden) *
                     static_cast<std::size_t>(m.intermediate);
  const std::size_t value_bytes = m.format == weight_format::bf16 ? sizeof(bfloat16) : sizeof(float8_e4m3);
  require_host_memory(3 * total * value_bytes, {fmt::format("{} experts of layer {}", count, layer),
                                                "use more ranks, so that each holds fewer experts"});
  const auto read = [&](const char* part, std::vector<bfloat16>& wide, std::vector<float8_e4m3>& narrow,
                        std::vector<float>& scales) {
    m.format == weight_format::bf16 ? wide.reserve(total) : narrow.reserve(total);
    for (int e = first; e < first + count; ++e) {
      const std::string name = expert_name(layer, e, part);
      const tensor_view& tensor = state_->tensor(name);
      if (m.format == weight_format::bf16) {
        append(wide, to_bfloat16(tensor));
      } else {
        append(narrow, to_e4m3(tensor));
        append(scales, to_scales(state_->tensor(scale_name(name))));
      }
    }
  };
  read("gate", m.gate, m.fp8.gate, m.fp8.gate_scales);
  read("up", m.up, m.fp8.up, m.fp8.up_scales);
  read("down", m.down, m.fp8.down, m.fp8.down_scales);
  return m;
}

void checkpoint::require_layer(int layer) const {
  if (layer >= 0 && layer < config().num_hidden_layers) return;
  throw invalid_argument{
      fmt::format("layer: expected 0 to {}, found {}", config().num_hidden_layers - 1, layer)};
}

}  // namespace baton::model
