// config.json of a qwen3_moe checkpoint.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "cli/model/checkpoint.hpp"
#include "cli/model/json_text.hpp"

namespace baton::model {
namespace {

using nlohmann::json;

/// Members of the config by name; null counts as absent, as in Hugging Face's own files.
class members {
 public:
  members(const json& object, const std::string& label) : object_{object}, label_{label} {}

  const json* find(const char* key) const {
    const auto at = object_.find(key);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }

  int extent(const char* key) const {
    const json* value = find(key);
    if (!value) bad(key, "a positive integer", "no such member");
    if (!value->is_number_unsigned() || value->get<std::uint64_t>() == 0 ||
        value->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) {
      bad(key, "a positive integer below 2^31", shown(*value));
    }
    return value->get<int>();
  }
  int extent(const char* key, int absent) const { return find(key) ? extent(key) : absent; }

  double positive(const char* key, double absent) const {
    const json* value = find(key);
    if (!value) return absent;
    if (!value->is_number() || !(value->get<double>() > 0) || !std::isfinite(value->get<double>())) {
      bad(key, "a positive number", shown(*value));
    }
    return value->get<double>();
  }

  bool flag(const char* key, bool absent) const {
    const json* value = find(key);
    if (!value) return absent;
    if (!value->is_boolean()) bad(key, "true or false", shown(*value));
    return value->get<bool>();
  }

  bool is(const char* key, std::string_view word) const {
    const json* value = find(key);
    return value && value->is_string() && value->get_ref<const std::string&>() == word;
  }

  [[noreturn]] void bad(const std::string& key, const std::string& expected, const std::string& found) const {
    throw bad_file{fmt::format("{}: {}: expected {}, found {}", label_, key, expected, found)};
  }
  [[noreturn]] void not_served(const std::string& key, const std::string& served) const {
    throw unsupported{fmt::format("{}: {}: baton serves {}, found {}; use another checkpoint", label_, key,
                                  served, find(key.c_str()) ? shown(*find(key.c_str())) : "nothing")};
  }

 private:
  const json& object_;
  const std::string& label_;
};

json parse_object(const std::string& text, const std::string& label) {
  json parsed = parse_json(text, {.bytes = max_config_bytes}, label);
  if (!parsed.is_object()) {
    throw bad_file{fmt::format("{}: expected a JSON object, found {}", label, shown(parsed))};
  }
  return parsed;
}

void refuse_what_is_not_served(const members& m) {
  const auto require = [&](const char* key, const json& served, const std::string& what) {
    if (m.find(key) && *m.find(key) != served) m.not_served(key, what);
  };
  if (!m.is("model_type", "qwen3_moe")) m.not_served("model_type", "\"qwen3_moe\"");
  require("hidden_act", "silu", "\"silu\"");
  require("attention_bias", false, "attention without biases (false)");
  require("use_sliding_window", false, "attention to all positions (false)");
  require("decoder_sparse_step", 1, "models whose every layer is sparse (1)");
  require("mlp_only_layers", json::array(), "models whose every layer is sparse ([])");
}

/// Whether weights may be FP8: what DeepSeek-V3's config says of its own, and nothing that changes what they mean.
bool read_quantization(const members& m, const std::string& label) {
  const json* value = m.find("quantization_config");
  if (!value) return false;
  if (!value->is_object()) m.bad("quantization_config", "an object", shown(*value));
  const std::string where = label + ": quantization_config";
  const members inside{*value, where};
  if (!inside.is("quant_method", "fp8")) inside.not_served("quant_method", "\"fp8\"");
  const json* block = inside.find("weight_block_size");
  if (!block || *block != json{weight_block, weight_block})
    inside.not_served("weight_block_size", "FP8 weights in blocks of [128, 128]");
  const auto require = [&](const char* key, const char* served) {
    if (inside.find(key) && !inside.is(key, served)) inside.not_served(key, fmt::format("\"{}\"", served));
  };
  require("fmt", "e4m3");
  require("activation_scheme", "dynamic");
  require("scale_fmt", "float");
  return true;
}

/// Rotary embedding of the plain kind; newer files keep its base inside rope_parameters.
double read_rope_theta(const members& m, const std::string& label) {
  double theta = m.positive("rope_theta", 10000.0);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const json* rope = m.find(key);
    if (!rope) continue;
    if (!rope->is_object()) m.bad(key, "an object", shown(*rope));
    const members inside{*rope, label};
    for (const char* type : {"rope_type", "type"}) {
      if (inside.find(type) && !inside.is(type, "default"))
        m.not_served(key, "plain rotary embeddings (null)");
    }
    theta = inside.positive("rope_theta", theta);
  }
  return theta;
}

void require_consistent(const model_config& c, const members& m) {
  if (c.num_attention_heads % c.num_key_value_heads != 0) {
    m.bad("num_key_value_heads", fmt::format("a divisor of num_attention_heads = {}", c.num_attention_heads),
          std::to_string(c.num_key_value_heads));
  }
  if (c.head_dim % 2 != 0) m.bad("head_dim", "an even number", std::to_string(c.head_dim));
  if (c.num_experts_per_tok > c.num_experts) {
    m.bad("num_experts_per_tok", fmt::format("at most num_experts = {}", c.num_experts),
          std::to_string(c.num_experts_per_tok));
  }
  const std::int64_t widest = std::int64_t{c.num_attention_heads} * c.head_dim;
  if (widest > std::numeric_limits<int>::max()) {
    m.bad("head_dim", "num_attention_heads * head_dim below 2^31", std::to_string(widest));
  }
}

}  // namespace

model_config parse_config(const std::string& text, const std::string& label) {
  const json object = parse_object(text, label);
  const members m{object, label};
  refuse_what_is_not_served(m);
  model_config c;
  c.vocab_size = m.extent("vocab_size");
  c.hidden_size = m.extent("hidden_size");
  c.num_hidden_layers = m.extent("num_hidden_layers");
  c.num_attention_heads = m.extent("num_attention_heads");
  c.num_key_value_heads = m.extent("num_key_value_heads", c.num_attention_heads);
  if (!m.find("head_dim") && c.hidden_size % c.num_attention_heads != 0) {
    m.bad("head_dim",
          fmt::format("a value, as num_attention_heads = {} does not divide hidden_size = {}",
                      c.num_attention_heads, c.hidden_size),
          "no such member");
  }
  c.head_dim = m.extent("head_dim", c.hidden_size / c.num_attention_heads);
  c.num_experts = m.extent("num_experts");
  c.num_experts_per_tok = m.extent("num_experts_per_tok");
  c.moe_intermediate_size = m.extent("moe_intermediate_size");
  c.max_position_embeddings = m.extent("max_position_embeddings", 32768);
  c.norm_topk_prob = m.flag("norm_topk_prob", false);
  c.tie_word_embeddings = m.flag("tie_word_embeddings", false);
  c.rope_theta = read_rope_theta(m, label);
  c.rms_norm_eps = m.positive("rms_norm_eps", 1e-6);
  c.allows_fp8 = read_quantization(m, label);
  require_consistent(c, m);
  return c;
}

}  // namespace baton::model
