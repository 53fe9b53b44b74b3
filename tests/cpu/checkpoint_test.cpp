#include "cli/model/checkpoint.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "cli/model/input_file.hpp"
#include "cli/model/qwen3_moe.hpp"
#include "cli/model/reference_moe.hpp"
#include "tests/cpu/says.hpp"
#include "tests/cpu/temporary_folder.hpp"
#include "tests/cpu/tiny_moe.hpp"
#include "tests/support/parsed_json.hpp"
#include "tests/support/small_checkpoint.hpp"

namespace {

using namespace baton;
using namespace baton::model;
using baton::test::message_of;
using baton::test::read_file;
using baton::test::says;
using baton::test::small_checkpoint;
using baton::test::temporary_folder;
using baton::test::write_file;
using nlohmann::json;

/// What DeepSeek-V3 says of its weights, with `others` in place of some of it.
json fp8_config(const json& others) {
  json config{{"activation_scheme", "dynamic"},
              {"fmt", "e4m3"},
              {"quant_method", "fp8"},
              {"weight_block_size", {128, 128}}};
  if (!others.is_null()) config.update(others);
  return config;
}

std::string refusal(const small_checkpoint& c) {
  const temporary_folder folder;
  c.write(folder.path());
  return message_of<bad_file>([&] { checkpoint::open(folder.path()); });
}

TEST(checkpoint, tiny_moe_opens_with_its_config_and_weights) {
  const auto& c = test::tiny_moe();
  EXPECT_EQ(c.config().num_experts, 64);
  EXPECT_EQ(c.config().head_dim, 64);
  EXPECT_TRUE(c.config().norm_topk_prob);
  EXPECT_EQ(c.config().rope_theta, 10000.0);
  EXPECT_EQ(c.weight_bytes(), 20287744u);  // total_size of the index
  EXPECT_EQ(c.dense_bytes(), 2 * (20287744u - 3 * 64 * 3 * 64 * 256 * 2));
  EXPECT_EQ(c.head(), c.embeddings());
  EXPECT_EQ(c.layer(2).k.size(), 128u * 256u);
}

TEST(checkpoint, ranges_of_experts_are_slices_of_all_of_them) {
  const auto all = test::tiny_moe().experts(1, 0, 64), some = test::tiny_moe().experts(1, 21, 3);
  const auto slice = [](const std::vector<bfloat16>& v, std::ptrdiff_t first, std::ptrdiff_t n) {
    return std::vector(v.begin() + first * 64 * 256, v.begin() + (first + n) * 64 * 256);
  };
  EXPECT_EQ(some.gate, slice(all.gate, 21, 3));
  EXPECT_EQ(some.up, slice(all.up, 21, 3));
  EXPECT_EQ(some.down, slice(all.down, 21, 3));
  EXPECT_NE(some.gate, some.up);
  EXPECT_TRUE(test::tiny_moe().experts(0, 64, 0).gate.empty());
  EXPECT_TRUE(says(message_of<invalid_argument>([] { test::tiny_moe().experts(0, 62, 3); }), "[0, 64)",
                   "[62, 62 + 3)"));
  EXPECT_TRUE(
      says(message_of<invalid_argument>([] { test::tiny_moe().experts(3, 0, 1); }), "0 to 2", "found 3"));
}

TEST(checkpoint, one_file_or_shards_f32_or_bf16_tied_or_not_all_run) {
  for (const bool is_sharded : {false, true}) {
    for (const bool is_tied : {false, true}) {
      small_checkpoint c;
      c.is_sharded = is_sharded;
      c.config["tie_word_embeddings"] = is_tied;
      if (is_tied) c.shapes.erase("lm_head.weight");
      for (const auto& [name, shape] : c.shapes) {
        c.shard[name] = static_cast<int>(name.size() % 3);
        if (is_tied) c.types[name] = dtype::bf16;
      }
      if (!is_sharded) c.shard.clear();
      const temporary_folder folder;
      c.write(folder.path());
      const auto opened = checkpoint::open(folder.path());
      qwen3_moe model{opened};
      reference_moe experts{opened};
      kv_cache cache = model.make_cache();
      const auto logits = model.step(experts, std::vector<rank_step>{{{&cache, {0, 4, 2}}}});
      EXPECT_EQ(logits[0][0].size(), 5u);
      EXPECT_TRUE(std::isfinite(logits[0][0][0]));
    }
  }
}

TEST(checkpoint, missing_folders_and_files_are_named) {
  const temporary_folder folder;
  const auto open = [&] { return message_of<bad_file>([&] { checkpoint::open(folder.path()); }); };
  EXPECT_TRUE(says(message_of<bad_file>([&] { checkpoint::open(folder / "none"); }), "none", "a directory",
                   "nothing"));
  EXPECT_TRUE(says(open(), "config.json"));
  small_checkpoint{}.write(folder.path());
  std::filesystem::remove(folder / "model.safetensors");
  EXPECT_TRUE(says(open(), "model.safetensors.index.json", "neither"));
}

TEST(checkpoint, a_missing_or_truncated_shard_is_named) {
  const temporary_folder folder;
  const auto open = [&] { return message_of<bad_file>([&] { checkpoint::open(folder.path()); }); };
  std::filesystem::copy(test::tiny_moe_folder(), folder.path());
  ASSERT_NO_THROW(checkpoint::open(folder.path()));
  const auto shard = folder / "model-00002-of-00003.safetensors";
  std::filesystem::permissions(shard, std::filesystem::perms::owner_all);
  std::filesystem::resize_file(shard, std::filesystem::file_size(shard) - 1);
  EXPECT_TRUE(says(open(), "model-00002-of-00003.safetensors", "expected", "found"));
  std::filesystem::remove(shard);
  EXPECT_TRUE(says(open(), "model-00002-of-00003.safetensors", "no such file", "index.json"));
}

TEST(checkpoint, an_index_and_shards_that_disagree_are_refused) {
  small_checkpoint c;
  c.is_sharded = true;
  c.shard["model.norm.weight"] = 1;
  const temporary_folder folder;
  c.write(folder.path());
  const auto index_path = folder / "model.safetensors.index.json";
  const json good = baton::test::parsed_json(read_file(index_path));
  const auto with = [&](const std::function<void(json&)>& change) {
    json changed = good;
    change(changed);
    write_file(index_path, changed.dump());
    return message_of<bad_file>([&] { checkpoint::open(folder.path()); });
  };
  EXPECT_EQ(with([](json&) {}), "nothing was thrown");
  EXPECT_TRUE(says(with([](json& j) { j["weight_map"]["lm_head.weight"] = "model-1.safetensors"; }),
                   "lm_head.weight", "model-1.safetensors",
                   "in " + (folder / "model-0.safetensors").string()));
  EXPECT_TRUE(
      says(with([](json& j) { j["weight_map"]["more"] = "model-1.safetensors"; }), "more", "in no shard"));
  EXPECT_TRUE(
      says(with([](json& j) { j["weight_map"].erase("lm_head.weight"); }), "lm_head.weight", "index.json"));
  EXPECT_TRUE(
      says(with([](json& j) { j["weight_map"]["lm_head.weight"] = "../x"; }), "beside the index", "../x"));
  EXPECT_TRUE(
      says(with([](json& j) { j["weight_map"]["lm_head.weight"] = 3; }), "lm_head.weight", "found 3"));
  EXPECT_TRUE(says(with([](json& j) { j["weight_map"] = 1; }), "weight_map"));
  std::filesystem::copy(folder / "model-0.safetensors", folder / "model-2.safetensors");
  EXPECT_TRUE(says(with([](json& j) { j["weight_map"]["lm_head.weight"] = "model-2.safetensors"; }),
                   "one shard only"));
}

TEST(checkpoint, a_missing_tensor_is_named_with_its_shape) {
  for (const auto& [name, shape] : small_checkpoint{}.shapes) {
    small_checkpoint c;
    c.shapes.erase(name);
    EXPECT_TRUE(says(refusal(c), "expected a tensor " + name + " " + to_string(shape)));
  }
}

TEST(checkpoint, a_tensor_of_another_shape_or_dtype_is_named_with_both) {
  for (const auto& [name, shape] : small_checkpoint{}.shapes) {
    small_checkpoint c;
    c.shapes[name].back() += 1;
    EXPECT_TRUE(
        says(refusal(c), name, "expected shape " + to_string(shape), "found " + to_string(c.shapes[name])));
    c = small_checkpoint{};
    c.types[name] = dtype::f16;
    EXPECT_TRUE(says(refusal(c), name, "expected dtype BF16 or F32, found F16"));
  }
}

TEST(checkpoint, config_and_weights_that_disagree_are_refused) {
  small_checkpoint c;
  c.config["num_hidden_layers"] = 1;
  EXPECT_TRUE(says(refusal(c), "model.layers.1.", "config.json does not explain it"));
  c = small_checkpoint{};
  c.config["num_experts"] = 2;
  EXPECT_TRUE(says(refusal(c), "mlp.gate.weight", "expected shape [2, 8]", "found [3, 8]"));
  c = small_checkpoint{};
  c.config["num_experts"] = 2000000000;
  EXPECT_TRUE(says(refusal(c), "mlp.gate.weight"));
  c = small_checkpoint{};
  c.config["num_hidden_layers"] = 2000000000;
  EXPECT_TRUE(says(refusal(c), "model.layers.2.input_layernorm.weight"));
  c = small_checkpoint{};
  c.shapes["model.layers.0.mlp.experts.3.up_proj.weight"] = {6, 8};
  EXPECT_TRUE(says(refusal(c), "experts.3", "does not explain it"));
}

TEST(checkpoint, a_tied_head_may_be_stored_if_it_is_the_embeddings) {
  small_checkpoint c;
  c.config["tie_word_embeddings"] = true;
  EXPECT_EQ(refusal(c), "nothing was thrown");
  c.types["lm_head.weight"] = dtype::bf16;
  EXPECT_TRUE(says(refusal(c), "lm_head.weight", "tie_word_embeddings"));
  c.types.clear();
  c.ends_otherwise = {"lm_head.weight"};
  EXPECT_TRUE(says(refusal(c), "lm_head.weight", "found others"));
  c.config["vocab_size"] = 40'000;  // more than is compared at a time
  c.shapes["lm_head.weight"] = c.shapes["model.embed_tokens.weight"] = {40'000, 8};
  EXPECT_TRUE(says(refusal(c), "lm_head.weight", "found others"));
  c.ends_otherwise.insert("model.embed_tokens.weight");
  EXPECT_EQ(refusal(c), "nothing was thrown");
}

TEST(checkpoint, an_index_that_says_something_twice_or_more_than_json_is_refused) {
  small_checkpoint c;
  c.is_sharded = true;
  const temporary_folder folder;
  c.write(folder.path());
  const auto path = folder / "model.safetensors.index.json";
  const std::string good = read_file(path);
  const auto with = [&](const std::string& text) {
    write_file(path, text);
    return message_of<bad_file>([&] { checkpoint::open(folder.path()); });
  };
  EXPECT_EQ(with(good), "nothing was thrown");
  EXPECT_TRUE(says(with(R"({"weight_map":{},)" + good.substr(1)), "index.json: line 1", "weight_map twice"));
  EXPECT_TRUE(says(with(good + std::string{"\0{", 2}), "index.json", "a zero byte"));
  EXPECT_TRUE(says(with(R"({"weight_map":{"a":)" + std::string(100'000, '[')), "nesting of at most 32"));
}

TEST(checkpoint, files_larger_than_their_kind_may_be_are_refused_before_they_are_read) {
  small_checkpoint c;
  c.is_sharded = true;
  const temporary_folder folder;
  c.write(folder.path());
  const auto refusal_of = [&](const char* name, std::uintmax_t bytes) {
    std::filesystem::resize_file(folder / name, bytes);  // sparse: it costs no disk
    return message_of<bad_file>([&] { checkpoint::open(folder.path()); });
  };
  EXPECT_TRUE(says(refusal_of("model.safetensors.index.json", 1ull << 40), "at most 67108864 bytes",
                   "1099511627776"));
  EXPECT_TRUE(
      says(refusal_of("config.json", 1ull << 40), "config.json", "at most 1048576 bytes", "1099511627776"));
}

/// What a pipe says when it has `said` this, of which `most_bytes` may be read.
std::string read_from_pipe(const std::string& said, std::size_t most_bytes) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error{"no pipe"};
  if (::write(ends[1], said.data(), said.size()) != static_cast<ssize_t>(said.size()))
    ADD_FAILURE() << "no room";
  ::close(ends[1]);
  const auto closes = [](const int* fd) { ::close(*fd); };
  const std::unique_ptr<const int, decltype(closes)> reads{&ends[0], closes};
  return read_text(fmt::format("/proc/self/fd/{}", ends[0]), most_bytes, file_kind::any);
}

TEST(input_file, a_pipe_is_read_up_to_its_limit_and_refused_beyond_it) {
  EXPECT_EQ(read_from_pipe("ten bytes.", 10), "ten bytes.");
  EXPECT_TRUE(
      says(message_of<bad_file>([] { read_from_pipe("eleven here", 10); }), "at most 10 bytes, found more"));
}

/// Checkpoints in FP8: which of their tensors, and what may be wrong with scales and values.
struct fp8_checkpoint : small_checkpoint {
  fp8_checkpoint() {
    config["quantization_config"] = fp8_config({});
    for (const auto& [name, shape] : std::map{shapes})
      if (is_of_expert(name)) narrow(name);
  }
  void narrow(const std::string& name) {
    types[name] = dtype::f8_e4m3;
    shapes[name + "_scale_inv"] = {1, 1};  // matrices are smaller than a block
  }
  /// The first bytes of a tensor, before those that are the same in all.
  void begin(const std::string& name, std::initializer_list<int> bytes) {
    std::vector<std::byte> all(64, std::byte{0x3c});
    std::transform(bytes.begin(), bytes.end(), all.begin(), [](int b) { return static_cast<std::byte>(b); });
    values[name] = all;
  }
  std::string refusal_when_loaded() const {
    const temporary_folder folder;
    write(folder.path());
    const auto opened = checkpoint::open(folder.path());
    return message_of<bad_file>([&] {
      opened.experts(0, 0, 3);
      opened.layer(0);
    });
  }
};
const std::string an_expert = "model.layers.0.mlp.experts.1.up_proj.weight",
                  its_scale = an_expert + "_scale_inv", a_query = "model.layers.0.self_attn.q_proj.weight";

TEST(fp8_checkpoint, experts_stay_as_they_are_and_attention_is_widened_with_scales_f32_or_bf16) {
  fp8_checkpoint c;
  c.narrow(a_query);
  c.types[a_query + "_scale_inv"] = dtype::bf16;
  c.begin(a_query, {0x40});  // e4m3 2
  c.begin(an_expert, {0x40});
  const temporary_folder folder;
  c.write(folder.path());
  const auto opened = checkpoint::open(folder.path());
  const float bf16_scale = static_cast<float>(bfloat16::from_bits(0x3c3c));
  EXPECT_EQ(opened.layer(0).q[0], 2 * bf16_scale);
  EXPECT_EQ(opened.layer(0).q[1], 1.5f * bf16_scale);
  const expert_matrices experts = opened.experts(0, 1, 2);
  EXPECT_EQ(experts.fp8.up[0].bits, 0x40);
  EXPECT_EQ(experts.fp8.up[1].bits, 0x3c);
  EXPECT_EQ(experts.fp8.up.size(), 2u * 6 * 8);
  EXPECT_EQ(experts.fp8.up_scales.size(), 2u);
  qwen3_moe network{opened};
  reference_moe reference{opened};
  kv_cache cache = network.make_cache();
  const auto logits = network.step(reference, std::vector<rank_step>{{{&cache, {0, 4, 2}}}});
  EXPECT_TRUE(std::isfinite(logits[0][0][0]));
}

TEST(fp8_checkpoint, a_layer_may_be_in_fp8_and_another_not) {
  fp8_checkpoint c;
  for (const auto& [name, shape] : std::map{c.shapes}) {
    if (!name.starts_with("model.layers.1.mlp.experts.")) continue;
    c.types.erase(name);
    if (name.ends_with("_scale_inv")) c.shapes.erase(name);
  }
  const temporary_folder folder;
  c.write(folder.path());
  const auto opened = checkpoint::open(folder.path());
  EXPECT_EQ(opened.experts(0, 0, 3).format, weight_format::block_fp8);
  EXPECT_EQ(opened.experts(1, 0, 3).format, weight_format::bf16);
}

TEST(fp8_checkpoint, scales_that_are_missing_too_many_or_of_another_shape_are_named) {
  fp8_checkpoint c;
  c.shapes.erase(its_scale);
  EXPECT_TRUE(says(refusal(c), its_scale, "[1, 1]", "found none"));
  c = {};
  c.shapes[its_scale] = {2, 1};
  EXPECT_TRUE(says(refusal(c), its_scale, "[1, 1]", "found [2, 1]"));
  c = {};
  c.types[its_scale] = dtype::f16;
  EXPECT_TRUE(says(refusal(c), its_scale, "BF16 or F32", "found F16"));
  c = {};
  c.shapes[a_query + "_scale_inv"] = {1, 1};
  EXPECT_TRUE(says(refusal(c), a_query + "_scale_inv", "no such tensor"));
}

TEST(fp8_checkpoint, fp8_where_it_is_not_served_is_named) {
  fp8_checkpoint c;
  c.types[an_expert] = dtype::bf16;
  c.shapes.erase(its_scale);
  EXPECT_TRUE(says(refusal(c), an_expert, "F8_E4M3", "found BF16", "together or not at all"));
  c = {};
  c.types["model.layers.0.mlp.gate.weight"] = dtype::f8_e4m3;
  EXPECT_TRUE(says(refusal(c), "mlp.gate", "BF16 or F32", "found F8_E4M3"));
  c = {};
  c.types[an_expert] = dtype::f8_e5m2;
  EXPECT_TRUE(says(refusal(c), an_expert, "BF16 or F32", "found F8_E5M2"));
  c = {};
  c.config.erase("quantization_config");
  EXPECT_TRUE(says(refusal(c), "experts", "no quantization_config", "F8_E4M3"));
}

TEST(fp8_checkpoint, values_and_scales_that_are_no_numbers_are_named_with_their_place) {
  for (const std::string& scale : {its_scale, a_query + "_scale_inv"}) {
    fp8_checkpoint c;
    c.narrow(a_query);
    EXPECT_EQ(c.refusal_when_loaded(), "nothing was thrown");
    c.begin(scale, {0, 0, 0xc0, 0x7f});
    EXPECT_TRUE(says(c.refusal_when_loaded(), scale, "finite scales", "found nan at [0, 0]"));
    c.begin(scale, {0, 0, 0x80, 0x7f});
    EXPECT_TRUE(says(c.refusal_when_loaded(), scale, "found inf"));
    c.begin(scale, {0, 0, 0x80, 0xbf});
    EXPECT_TRUE(says(c.refusal_when_loaded(), scale, "not negative", "found -1"));
    c.begin(scale, {0, 0, 0, 0});
    EXPECT_EQ(c.refusal_when_loaded(), "nothing was thrown") << "a block of zeros";
  }
  fp8_checkpoint c;
  c.begin(an_expert, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff});
  EXPECT_TRUE(says(c.refusal_when_loaded(), an_expert, "expected numbers", "at [1, 1]"));
}

json good_config() {
  return small_checkpoint{}.config;
}

std::string config_refusal(const char* key, const json& value) {
  json config = good_config();
  config[key] = value;
  return message_of<bad_file>([&] { parse_config(config.dump(), "config.json"); });
}

TEST(config, members_not_named_have_hugging_faces_defaults) {
  const auto c = parse_config(good_config().dump(), "config.json");
  EXPECT_EQ(c.rope_theta, 10000.0);
  EXPECT_EQ(c.rms_norm_eps, 1e-6);
  EXPECT_FALSE(c.norm_topk_prob);
  EXPECT_FALSE(c.tie_word_embeddings);
  EXPECT_EQ(c.max_position_embeddings, 32768);
  json config = good_config();
  config.erase("head_dim");
  config["num_key_value_heads"] = nullptr;
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e6}};
  const auto derived = parse_config(config.dump(), "config.json");
  EXPECT_EQ(derived.head_dim, 4);
  EXPECT_EQ(derived.num_key_value_heads, 2);
  EXPECT_EQ(derived.rope_theta, 1e6);
}

TEST(config, a_missing_wrong_or_contradictory_member_is_named_with_what_was_expected) {
  for (const char* key : {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                          "num_experts", "num_experts_per_tok", "moe_intermediate_size"}) {
    EXPECT_TRUE(says(config_refusal(key, nullptr), key, "no such member"));
    for (const json& value : {json(0), json(-1), json(2.5), json("8"), json(1ull << 31), json(true)}) {
      EXPECT_TRUE(says(config_refusal(key, value), key, "positive integer", "found " + value.dump()));
    }
  }
  EXPECT_TRUE(says(config_refusal("num_experts_per_tok", 4), "at most num_experts = 3", "found 4"));
  EXPECT_TRUE(
      says(config_refusal("num_key_value_heads", 3), "a divisor of num_attention_heads = 2", "found 3"));
  EXPECT_TRUE(says(config_refusal("head_dim", 3), "an even number", "found 3"));
  EXPECT_TRUE(says(config_refusal("rope_theta", 0), "rope_theta", "a positive number"));
  EXPECT_TRUE(says(config_refusal("rms_norm_eps", "1"), "rms_norm_eps"));
  EXPECT_TRUE(says(config_refusal("norm_topk_prob", 1), "true or false"));
}

std::string text_refusal(const std::string& text) {
  return message_of<bad_file>([&] { parse_config(text, "config.json"); });
}

TEST(config, text_that_is_not_a_json_object_is_refused) {
  for (const char* text : {"", "{", "[1]", "\xff", "{} x"}) {
    EXPECT_TRUE(says(text_refusal(text), "config.json", "JSON")) << text;
  }
}

TEST(config, an_odd_value_is_refused_whatever_its_depth_and_size) {
  const std::string good = good_config().dump();
  const auto with = [&](const std::string& value) {
    return R"({"head_dim":)" + value + "," + good.substr(1);
  };
  EXPECT_TRUE(says(text_refusal(with(std::string(100'000, '[') + std::string(100'000, ']'))), "at most 32"));
  std::string nested = "1";
  for (int i = 0; i < 20'000; ++i) nested = R"({"a":)" + nested + "}";
  EXPECT_TRUE(says(text_refusal(with(nested)), "at most 32"));
  EXPECT_TRUE(
      says(config_refusal("vocab_size", std::vector<int>(400'000)), "found an array of 400000 values"));
  EXPECT_LT(config_refusal("vocab_size", std::string(500'000, 'v')).size(), 300u);
  EXPECT_TRUE(says(text_refusal(good + std::string(1 << 20, ' ')), "at most 1048576 bytes"));
}

TEST(config, a_member_twice_and_text_behind_a_zero_byte_are_refused) {
  const std::string good = good_config().dump();
  EXPECT_TRUE(says(text_refusal(R"({"rope_parameters":{"rope_theta":1,"rope_theta":2},)" + good.substr(1)),
                   "rope_theta twice"));
  EXPECT_TRUE(says(text_refusal(R"({"vocab_size":6,)" + good.substr(1)), "vocab_size twice"));
  EXPECT_TRUE(says(text_refusal(good + std::string{"\0 more", 6}), "a zero byte"));
}

TEST(config, fp8_as_deepseek_v3_has_it_is_served) {
  json config = good_config();
  EXPECT_FALSE(parse_config(config.dump(), "config.json").allows_fp8);
  config["quantization_config"] = fp8_config({});
  EXPECT_TRUE(parse_config(config.dump(), "config.json").allows_fp8);
  config["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
  EXPECT_TRUE(parse_config(config.dump(), "config.json").allows_fp8);
  EXPECT_TRUE(says(config_refusal("quantization_config", 8), "quantization_config", "an object", "found 8"));
}

TEST(config, what_is_not_served_is_refused_clearly) {
  const std::vector<std::pair<const char*, json>> cases{
      {"model_type", "mixtral"},
      {"model_type", nullptr},
      {"hidden_act", "gelu"},
      {"attention_bias", true},
      {"use_sliding_window", true},
      {"decoder_sparse_step", 2},
      {"mlp_only_layers", {0}},
      {"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}},
      {"quantization_config", {{"quant_method", "fp8"}}},
      {"quantization_config", fp8_config({{"quant_method", "gptq"}})},
      {"quantization_config", fp8_config({{"weight_block_size", {64, 128}}})},
      {"quantization_config", fp8_config({{"weight_block_size", nullptr}})},
      {"quantization_config", fp8_config({{"fmt", "e5m2"}})},
      {"quantization_config", fp8_config({{"activation_scheme", "static"}})},
      {"quantization_config", fp8_config({{"scale_fmt", "ue8m0"}})}};
  for (const auto& [key, value] : cases) {
    json config = good_config();
    config[key] = value;
    const auto message = message_of<unsupported>([&] { parse_config(config.dump(), "config.json"); });
    EXPECT_TRUE(says(message, "config.json", key, "baton serves"));
  }
  EXPECT_EQ(config_refusal("mlp_only_layers", json::array()), "nothing was thrown");
  EXPECT_EQ(config_refusal("decoder_sparse_step", 1), "nothing was thrown");
}

}  // namespace
