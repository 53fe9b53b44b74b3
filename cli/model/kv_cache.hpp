#pragma once
// The keys and values of one sequence, all layers.
#include <span>
#include <vector>

namespace baton::model {

/// Grows by what is appended. A step appends to every layer and commits once at its end, so a step that
/// throws leaves the sequence as it was.
class kv_cache {
 public:
  /// `row` is num_key_value_heads * head_dim.
  kv_cache(int num_layers, int row);

  int positions() const { return positions_; }  // committed
  int row() const { return row_; }

  /// Puts key and value [row] of `position` (at least positions()) into a layer.
  void put(int layer, int position, std::span<const float> key, std::span<const float> value);
  /// Row `position` of a layer; rows follow each other at a stride of row().
  const float* keys(int layer) const { return keys_[static_cast<std::size_t>(layer)].data(); }
  const float* values(int layer) const { return values_[static_cast<std::size_t>(layer)].data(); }
  void commit(int new_positions) { positions_ += new_positions; }

 private:
  int row_;
  int positions_ = 0;
  std::vector<std::vector<float>> keys_, values_;  // [layer][position * row]
};

}  // namespace baton::model
