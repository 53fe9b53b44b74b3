#pragma once
// A Hugging Face `qwen3_moe` checkpoint: config.json and the weights, in one or many safetensors files, bf16, f32 or FP8.
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "baton/error.hpp"
#include "baton/numeric.hpp"
#include "baton/weight_format.hpp"
#include "cli/model/router.hpp"
#include "cli/model/safetensors.hpp"

namespace baton::model {

/// config.json; members not named there have Hugging Face's defaults.
struct model_config {
  int vocab_size = 0;
  int hidden_size = 0;
  int num_hidden_layers = 0;
  int num_attention_heads = 0;
  int num_key_value_heads = 0;
  int head_dim = 0;
  int num_experts = 0;
  int num_experts_per_tok = 0;
  int moe_intermediate_size = 0;
  int max_position_embeddings = 0;
  bool norm_topk_prob = false;
  bool tie_word_embeddings = false;
  double rope_theta = 10000.0;
  double rms_norm_eps = 1e-6;
  bool allows_fp8 = false;  // quantization_config: e4m3 weights in blocks of 128x128, as DeepSeek-V3 has them
};

inline constexpr std::size_t max_config_bytes = 1 << 20;

/// Reads config.json's text; `label` stands for the file in error texts.
/// @throws bad_file     not JSON, a member missing, of the wrong type or out of range (which, expected,
/// found)
/// @throws unsupported  a legal config that is not served: another model_type, dense layers (mlp_only_layers,
///                      decoder_sparse_step), rope_scaling, attention_bias, sliding windows, another
///                      quantization_config than DeepSeek-V3's, another hidden_act
model_config parse_config(const std::string& text, const std::string& label);

/// What a layer does outside its experts, as fp32. Matrices are [out, in].
struct layer_weights {
  std::vector<float> input_norm, post_attention_norm;  // [hidden]
  std::vector<float> q, k, v;                          // [heads * head_dim, hidden]
  std::vector<float> o;                                // [hidden, heads * head_dim]
  std::vector<float> q_norm, k_norm;                   // [head_dim]
};

/// Matrices of block_fp8 and their scales, in the layout of baton::expert_weights.
struct fp8_matrices {
  std::vector<float8_e4m3> gate, up, down;
  std::vector<float> gate_scales, up_scales, down_scales;
};

/// The weights of some experts of one layer, in the layout of baton::expert_weights.
struct expert_matrices {
  int num_experts = 0;
  int hidden = 0;
  int intermediate = 0;
  std::vector<bfloat16> gate, up;  // [num_experts, intermediate, hidden]; empty with block_fp8
  std::vector<bfloat16> down;      // [num_experts, hidden, intermediate]; empty with block_fp8
  weight_format format = weight_format::bf16;
  fp8_matrices fp8 = {};  // empty with bf16
};

struct shard_set;

/// Whether a tensor of that name is a matrix of an expert.
bool is_of_expert(std::string_view tensor);

/// An open checkpoint. Opening checks that every tensor the config calls for is there with its shape and a
/// served dtype (bf16 or f32; where the config allows FP8, projections of attention and experts also F8_E4M3 with scales, f32 or
/// bf16; all experts of a layer alike), before anything is computed. Copies share the open files.
class checkpoint {
 public:
  /// @throws bad_file     a missing file, shard or tensor, a tensor that its index puts into another shard, a
  ///                      wrong shape or dtype, or tensors that the config does not explain (names, expected, found)
  /// @throws unsupported  see parse_config
  static checkpoint open(const std::filesystem::path& directory);

  const model_config& config() const;
  const std::filesystem::path& directory() const;
  const shard_set& shards() const;   // its files, with all tensors as they are stored
  std::size_t weight_bytes() const;  // of all tensors
  std::size_t dense_bytes() const;   // of all but the experts', as fp32: what a qwen3_moe holds

  std::vector<float> embeddings() const;  // [vocab, hidden]
  std::vector<float> head() const;        // [vocab, hidden]; the embeddings when tied
  std::vector<float> final_norm() const;  // [hidden]
  layer_weights layer(int layer) const;
  router layer_router(int layer) const;

  /// Experts first .. first + count - 1 of a layer. FP8 stays as it is, f32 is rounded to bf16.
  /// @throws bad_file          an FP8 value is NaN, or a scale no finite number from 0 (where)
  /// @throws invalid_argument  a layer or range that the model does not have
  /// @throws out_of_memory     they do not fit the host's free memory; nothing has been read
  expert_matrices experts(int layer, int first, int count) const;

 private:
  struct state;
  explicit checkpoint(std::shared_ptr<const state> s) : state_{std::move(s)} {}
  void require_layer(int layer) const;
  std::shared_ptr<const state> state_;
};

}  // namespace baton::model
