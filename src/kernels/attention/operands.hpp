#pragma once
// What both calls of attention ask for, in one form, once their sizes have been checked.
#include <cstdint>
#include <type_traits>

#include "base/math.hpp"
#include "baton/attention.hpp"

namespace baton::attention_kernels {

/// Keys j with begin <= j < end.
struct key_range {
  int begin = 0, end = 0;
  constexpr bool empty() const { return end <= begin; }
};

/// `left` and `right`: keys before and behind the one that a row is level with; none: all.
struct visibility {
  static constexpr int none = -1;
  int left = none, right = none;

  /// What row `row` of q_len sees of k_len keys. Sums of rows stay below 2^31: all are at most 2^28, but for windows.
  constexpr key_range keys_of(int row, int q_len, int k_len) const {
    const std::int64_t level = std::int64_t{row} + k_len - q_len;
    const std::int64_t first = left == none ? 0 : larger<std::int64_t>(level - left, 0);
    const std::int64_t last = right == none ? k_len : smaller<std::int64_t>(level + right + 1, k_len);
    if (last <= first) return {};
    return {static_cast<int>(first), static_cast<int>(last)};
  }
};

/// Steps are in values. Row r of the keys of a sequence, or of a page, is at `r * k_row + kv_head * kv_head_step`.
template <class Value, class Cache = Value>
struct operands {
  using value = Value;
  using cache = Cache;
  /// Keys and values are e4m3, and scaled where they are read.
  static constexpr bool is_e4m3 = std::is_same_v<Cache, float8_e4m3>;

  const Value* q = nullptr;
  const Cache *k = nullptr, *v = nullptr;
  Value* out = nullptr;
  float* lse = nullptr;
  const float* sinks = nullptr;
  const std::int32_t* cu_seqlens_q = nullptr;  // null: q_len rows each
  const std::int32_t* cu_seqlens_k = nullptr;  // null: k_len rows each, if not paged
  const std::int32_t* seqlens_k = nullptr;     // paged: keys of each
  const std::int32_t* page_table = nullptr;    // paged: [batch, max_pages]
  int batch = 0, q_len = 0, k_len = 0;         // the longest sequences
  int total_q = 0, total_k = 0;                // rows; of pages none
  int heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t q_row = 0, out_row = 0, k_row = 0, v_row = 0, kv_head_step = 0, page_step = 0;
  int num_pages = 0, page_size = 0, max_pages = 0;
  bool paged = false;
  kv_layout layout = kv_layout::nhd;
  bool lse_by_sequence = false;  // [batch, heads, q_len] instead of [heads, total_q]
  const float *k_descale = nullptr, *v_descale = nullptr;  // of e4m3; null: 1
  bool descale_by_head = false;                            // [kv_heads] instead of [1]
  visibility sees{};
  float scale = 1, softcap = 0;
  int num_sms = 0;

  constexpr int group() const { return heads / kv_heads; }
  constexpr const char* call() const { return paged ? "paged_attention" : "varlen_attention"; }
};

}  // namespace baton::attention_kernels
