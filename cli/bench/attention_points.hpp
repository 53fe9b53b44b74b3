#pragma once
// Which attention is measured: heads of models' layers, masks, and how much work that is.
#include <span>
#include <string>
#include <vector>

#include "baton/attention.hpp"
#include "cli/bench/grouped_points.hpp"

namespace baton::cli {

/// Heads of a layer.
struct attention_heads {
  std::string model, layer;  // empty: of no model
  int heads = 0, kv_heads = 0, head_dim = 0;
  int window = 0;  // keys that a row sees, its own among them; 0: all
};

/// "gemma-4-31b" has layers that see all keys and others that see a window.
std::span<const attention_heads> attention_layers();
/// "{gemma-4-31b,...}"
std::string attention_model_names();
/// @throws invalid_argument  there is none of that name: which there are
std::vector<attention_heads> layers_of_model(const std::string& name);

/// dense: every row sees every key. causal: those up to its own. window: the last ones of these.
enum class attention_mask { dense, causal, window };
constexpr const char* name(attention_mask m) {
  return m == attention_mask::dense ? "dense" : m == attention_mask::causal ? "causal" : "window";
}

/// As many keys as rows.
struct attention_size {
  attention_heads of;
  int batch = 1, length = 0;
  attention_mask mask = attention_mask::dense;
  operand_format format = operand_format::bf16;  // or fp16
  int num_sms = 0;

  attention_options options() const;
  /// Pairs of a row and a key that it sees, of one head of one sequence: length^2, or (length + 1) / 2 of each row where causal.
  double pairs() const;
  /// A product with q and one with v for each pair.
  double flops() const;
  /// q, k and v read and out written once.
  double bytes() const;
};

}  // namespace baton::cli
