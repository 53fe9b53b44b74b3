#include "cli/bench/attention_points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/math.hpp"
#include "baton/error.hpp"

namespace baton::cli {
namespace {

// As their config.json says: num_attention_heads, num_key_value_heads (num_global_key_value_heads of global layers), head_dim
// (global_head_dim), sliding_window.
const attention_heads known_layers[] = {{"gemma-4-31b", "global", 32, 4, 512},
                                        {"gemma-4-31b", "sliding", 32, 16, 256, 1024},
                                        {"gemma-4-12b", "global", 16, 1, 512},
                                        {"qwen3-next", "full", 16, 2, 256}};

}  // namespace

std::span<const attention_heads> attention_layers() {
  return known_layers;
}

std::string attention_model_names() {
  std::string text;
  for (std::size_t i = 0; i < std::size(known_layers); ++i)
    if (i == 0 || known_layers[i].model != known_layers[i - 1].model)
      text += (text.empty() ? "{" : ",") + known_layers[i].model;
  return text + "}";
}

std::vector<attention_heads> layers_of_model(const std::string& name) {
  std::vector<attention_heads> found;
  std::copy_if(std::begin(known_layers), std::end(known_layers), std::back_inserter(found),
               [&](const attention_heads& layer) { return layer.model == name; });
  if (found.empty())
    throw invalid_argument{fmt::format("--models: \"{}\" is not one of {}", name, attention_model_names())};
  return found;
}

attention_options attention_size::options() const {
  attention_options o{.causal = mask != attention_mask::dense, .num_sms = num_sms};
  if (mask == attention_mask::window) o.window_left = of.window - 1;
  return o;
}

double attention_size::pairs() const {
  const double n = length;
  if (mask == attention_mask::dense) return n * n;
  const double seen = mask == attention_mask::causal ? n : smaller(of.window, length);
  return seen * (seen + 1) / 2 + (n - seen) * seen;  // the first rows see fewer
}

double attention_size::flops() const {
  return 4.0 * batch * of.heads * of.head_dim * pairs();
}

double attention_size::bytes() const {
  return 2.0 * value_bytes(format) * batch * length * of.head_dim * (of.heads + of.kv_heads);
}

}  // namespace baton::cli
