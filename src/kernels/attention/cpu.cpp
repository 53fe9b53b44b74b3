#include "kernels/attention/cpu.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "base/dot.hpp"
#include "base/fp8_rows.hpp"

namespace baton::attention_cpu {
namespace {

using attention_kernels::key_range;
using attention_kernels::operands;

// Rows that share one conversion of each key, and keys that are converted together: both fit the second cache at 512 values.
constexpr int block_rows = 16, block_keys = 32;
constexpr float infinity = std::numeric_limits<float>::infinity();

constexpr std::size_t size(int n) {
  return static_cast<std::size_t>(n);
}

/// The rows and keys of a sequence. What the device says is bounded before it is followed.
struct sequence {
  int index, first_q, q_len, first_k, k_len;
};
template <class Asked>
sequence sequence_of(const Asked& p, int b) {
  sequence s{b, 0, p.q_len, 0, p.k_len};
  const auto bounded = [b](const std::int32_t* cu, int total, int most, int& first, int& length) {
    first = cu == nullptr ? b * most : std::clamp(cu[b], 0, total);
    if (cu != nullptr) length = std::clamp(std::clamp(cu[b + 1], 0, total) - first, 0, most);
  };
  bounded(p.cu_seqlens_q, p.total_q, p.q_len, s.first_q, s.q_len);
  if (p.paged)
    s.k_len = p.num_pages == 0 ? 0 : std::clamp(p.seqlens_k[b], 0, p.k_len);
  else
    bounded(p.cu_seqlens_k, p.total_k, p.k_len, s.first_k, s.k_len);
  return s;
}

/// Where key `key` of a sequence begins, from the first head on; `row` is k_row or v_row.
template <class Asked>
std::int64_t place_of(const Asked& p, const sequence& s, int key, std::int64_t row) {
  if (!p.paged) return (std::int64_t{s.first_k} + key) * row;
  const int entry = p.page_table[std::int64_t{s.index} * p.max_pages + key / p.page_size];
  return std::clamp(entry, 0, p.num_pages - 1) * p.page_step + key % p.page_size * row;
}

/// A row of q with its softmax so far: of all logits x seen, `largest` is the largest, `sum` is that of exp(x - largest), and
/// `values` that of exp(x - largest) times the key's v.
struct running_row {
  int row = 0, head = 0;
  key_range sees{};
  float largest = -infinity, sum = 0;
};

/// Up to block_rows rows of the heads that share a head of k, against blocks of keys.
template <class Value, class Cache>
class row_block {
 public:
  explicit row_block(const operands<Value, Cache>& p)
      : p_{p},
        dim_{size(p.head_dim)},
        q_(size(block_rows) * dim_),
        values_(size(block_rows) * dim_),
        k_(size(block_keys) * dim_),
        v_(size(block_keys) * dim_) {}

  /// Rows first to first + count - 1 of those that the heads of kv_head have in the sequence, heads of a row together.
  void run(const sequence& s, int kv_head, std::int64_t first, int count) {
    k_scale_ = p_.scale * descale(p_.k_descale, kv_head), v_scale_ = descale(p_.v_descale, kv_head);
    take(s, kv_head, first, count);
    // Blocks begin at multiples, not at the first visible key: what a row gives depends on no other.
    for (int begin = range_.begin / block_keys * block_keys; begin < range_.end; begin += block_keys) {
      const key_range block{larger(begin, range_.begin), smaller(begin + block_keys, range_.end)};
      load(s, kv_head, block);
      for (int r = 0; r < count; ++r) meet(r, block);
    }
    for (int r = 0; r < count; ++r) finish(s, r);
  }

 private:
  void take(const sequence& s, int kv_head, std::int64_t first, int count) {
    range_ = {s.k_len, 0};
    for (int r = 0; r < count; ++r) {
      running_row& row = rows_[r];
      row = {.row = static_cast<int>((first + r) / p_.group()),
             .head = kv_head * p_.group() + static_cast<int>((first + r) % p_.group())};
      row.sees = p_.sees.keys_of(row.row, s.q_len, s.k_len);
      if (!row.sees.empty())
        range_ = {smaller(range_.begin, row.sees.begin), larger(range_.end, row.sees.end)};
      widen(p_.q + place_of_row(s, row, p_.q_row), dim_, q_.data() + size(r) * dim_);
    }
    std::fill(values_.begin(), values_.end(), 0.0f);
  }

  float descale(const float* of, int kv_head) const {
    return of == nullptr ? 1.0f : of[p_.descale_by_head ? kv_head : 0];
  }
  std::int64_t place_of_row(const sequence& s, const running_row& r, std::int64_t step) const {
    return (std::int64_t{s.first_q} + r.row) * step + std::int64_t{r.head} * p_.head_dim;
  }

  void load(const sequence& s, int kv_head, key_range block) {
    first_key_ = block.begin;
    for (int j = block.begin; j < block.end; ++j) {
      const std::size_t to = size(j - block.begin) * dim_;
      widen(p_.k + place_of(p_, s, j, p_.k_row) + kv_head * p_.kv_head_step, dim_, k_.data() + to);
      widen(p_.v + place_of(p_, s, j, p_.v_row) + kv_head * p_.kv_head_step, dim_, v_.data() + to);
    }
  }

  float logit(const float* q, int key) const {
    const float x = k_scale_ * dot(q, k_.data() + size(key - first_key_) * dim_, dim_);
    return p_.softcap == 0 ? x : p_.softcap * std::tanh(x / p_.softcap);
  }

  /// Row r sees its keys of a block.
  void meet(int r, key_range block) {
    running_row& row = rows_[r];
    const key_range seen{larger(block.begin, row.sees.begin), smaller(block.end, row.sees.end)};
    if (seen.empty()) return;
    float logits[block_keys], largest = row.largest;
    for (int j = seen.begin; j < seen.end; ++j) {
      logits[j - seen.begin] = logit(q_.data() + size(r) * dim_, j);
      largest = larger(largest, logits[j - seen.begin]);
    }
    float* const values = values_.data() + size(r) * dim_;
    raise(row, values, largest);
    for (int j = seen.begin; j < seen.end; ++j) {
      const float weight = std::exp(logits[j - seen.begin] - shift(row));
      row.sum += weight;
      add_scaled(values, v_.data() + size(j - first_key_) * dim_, weight, dim_);
    }
  }

  /// Logits of -inf alone weigh nothing, and have no difference.
  static float shift(const running_row& row) { return row.largest == -infinity ? 0 : row.largest; }

  void raise(running_row& row, float* values, float largest) const {
    if (largest == row.largest) return;
    const float before = row.largest;
    row.largest = largest;
    const float factor = std::exp(before - shift(row));
    row.sum *= factor;
    for (std::size_t i = 0; i < dim_; ++i) values[i] *= factor;
  }

  void finish(const sequence& s, int r) {
    running_row& row = rows_[r];
    float* const values = values_.data() + size(r) * dim_;
    if (p_.sinks != nullptr && !row.sees.empty()) {
      const float sink = p_.sinks[row.head];
      raise(row, values, larger(row.largest, sink));
      row.sum += std::exp(sink - shift(row));
    }
    Value* const out = p_.out + place_of_row(s, row, p_.out_row);
    const bool nothing = row.sum == 0;
    for (std::size_t i = 0; i < dim_; ++i) out[i] = Value{nothing ? 0.0f : values[i] / row.sum * v_scale_};
    if (p_.lse != nullptr) lse_of(s, row) = nothing ? -infinity : shift(row) + std::log(row.sum);
  }

  float& lse_of(const sequence& s, const running_row& row) const {
    if (!p_.lse_by_sequence) return p_.lse[std::int64_t{row.head} * p_.total_q + s.first_q + row.row];
    return p_.lse[(std::int64_t{s.index} * p_.heads + row.head) * p_.q_len + row.row];
  }

  const operands<Value, Cache>& p_;
  std::size_t dim_;
  std::vector<float> q_, values_;  // [block_rows, head_dim]
  std::vector<float> k_, v_;       // [block_keys, head_dim]
  running_row rows_[block_rows];
  key_range range_{};  // what any of the rows sees
  float k_scale_ = 1, v_scale_ = 1;
  int first_key_ = 0;  // of k_ and v_
};

}  // namespace

template <class Value, class Cache>
void run(const operands<Value, Cache>& p) {
  row_block<Value, Cache> block{p};
  for (int b = 0; b < p.batch; ++b) {
    const sequence s = sequence_of(p, b);
    const std::int64_t rows = std::int64_t{s.q_len} * p.group();
    for (int kv_head = 0; kv_head < p.kv_heads; ++kv_head)
      for (std::int64_t first = 0; first < rows; first += block_rows)
        block.run(s, kv_head, first, static_cast<int>(smaller<std::int64_t>(block_rows, rows - first)));
  }
}

template void run(const operands<bfloat16>&);
template void run(const operands<float16>&);
template void run(const operands<bfloat16, float8_e4m3>&);
template void run(const operands<float16, float8_e4m3>&);

}  // namespace baton::attention_cpu
