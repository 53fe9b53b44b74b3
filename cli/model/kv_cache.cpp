#include "cli/model/kv_cache.hpp"

#include <algorithm>
#include <cstddef>

namespace baton::model {

kv_cache::kv_cache(int num_layers, int row)
    : row_{row}, keys_(static_cast<std::size_t>(num_layers)), values_(static_cast<std::size_t>(num_layers)) {}

void kv_cache::put(int layer, int position, std::span<const float> key, std::span<const float> value) {
  const auto row = static_cast<std::size_t>(row_);
  const std::size_t at = static_cast<std::size_t>(position) * row;
  for (auto [rows, from] : {std::pair{&keys_, key}, std::pair{&values_, value}}) {
    auto& of_layer = (*rows)[static_cast<std::size_t>(layer)];
    if (of_layer.size() < at + row) of_layer.resize(at + row);
    std::copy(from.begin(), from.end(), of_layer.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

}  // namespace baton::model
