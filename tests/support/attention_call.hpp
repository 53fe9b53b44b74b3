#pragma once
// Cases of attention in memory of a device, called as users call them.
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "baton/device_buffer.hpp"
#include "tests/support/attention_oracle.hpp"

namespace baton::test {

/// [total_q, heads, head_dim] and [heads, total_q]; where nothing was written, every bit is set.
template <class Value>
struct attention_result {
  std::vector<Value> out;
  std::vector<float> lse;
};

template <class Value>
attention_errors errors_of(const attention_case<Value>& c, const attention_result<Value>& found,
                           const attention_rounding& r) {
  return errors_of(c, found.out.data(), found.lse.data(), r);
}

template <class Value>
attention_errors errors_of(attention_oracle<Value>& oracle, const attention_result<Value>& found) {
  return errors_of(oracle, found.out.data(), found.lse.data());
}

/// Gaps between rows, or pages, in multiples of head_dim.
struct attention_gaps {
  int q = 0, k = 0, v = 0, out = 0, page = 0;
};

namespace attention_detail {

/// Rows with `gap` values behind each, every bit of which is set.
template <class Value>
std::vector<Value> spread_rows(std::span<const Value> rows, std::size_t row, std::size_t gap) {
  std::vector<Value> spread(rows.size() / row * (row + gap), Value::from_bits(0xffff));
  for (std::size_t i = 0; i < rows.size(); ++i) spread[i / row * (row + gap) + i % row] = rows[i];
  return spread;
}
template <class Value>
std::vector<Value> joined_rows(std::span<const Value> spread, std::size_t row, std::size_t gap) {
  std::vector<Value> rows(spread.size() / (row + gap) * row);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = spread[i / row * (row + gap) + i % row];
  return rows;
}

/// What both calls take alike; outputs with every bit set.
template <class Value>
class attention_memory {
 public:
  attention_memory(const world& w, const attention_case<Value>& c, const attention_gaps& gaps)
      : row_{static_cast<std::size_t>(c.shape.heads * c.shape.head_dim)},
        q_gap_{static_cast<std::size_t>(gaps.q * c.shape.head_dim)},
        out_gap_{static_cast<std::size_t>(gaps.out * c.shape.head_dim)},
        q_{w, spread_rows<Value>(c.q, row_, q_gap_)},
        out_{w, c.q.size() / row_ * (row_ + out_gap_)},
        lse_{w, static_cast<std::size_t>(c.total_q() * c.shape.heads)},
        sinks_{w, c.sinks},
        cu_q_{w, c.cu_q} {
    out_.fill_async(0xff);
    lse_.fill_async(0xff);
    w.synchronize();
  }

  template <class Problem>
  void give_to(Problem& p, const attention_shape& s) {
    p.q = q_.data();
    p.out = out_.data();
    p.lse = lse_.data();
    p.batch = s.batch();
    p.heads = s.heads;
    p.kv_heads = s.kv_heads;
    p.head_dim = s.head_dim;
    p.q_stride = q_gap_ == 0 ? 0 : static_cast<std::int64_t>(row_ + q_gap_);
    p.out_stride = out_gap_ == 0 ? 0 : static_cast<std::int64_t>(row_ + out_gap_);
    p.options = s.options;
    p.options.sinks = s.sinks ? sinks_.data() : nullptr;
  }
  const std::int32_t* cu_q() const { return cu_q_.data(); }
  attention_result<Value> result() const {
    const std::vector<Value> out = out_.to_host();
    return {joined_rows<Value>(out, row_, out_gap_), lse_.to_host()};
  }

 private:
  std::size_t row_, q_gap_, out_gap_;
  device_buffer<Value> q_, out_;
  device_buffer<float> lse_, sinks_;
  device_buffer<std::int32_t> cu_q_;
};

/// What the call asks for, of a device.
template <class Problem>
device_buffer<std::byte> scratch_for(const world& w, const Problem& p) {
  return {w, attention_scratch_bytes(w.device(), p)};
}
inline void* address_of(device_buffer<std::byte>& scratch) {
  return scratch.size() == 0 ? nullptr : scratch.data();
}

inline int longest(const std::vector<int>& lengths) {
  return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
}

}  // namespace attention_detail

/// `say(problem)` changes what is asked, as which lengths are told by cu_seqlens.
template <class Value, class Say>
attention_result<Value> varlen_result(const world& w, const attention_case<Value>& c,
                                      const attention_gaps& gaps, Say say) {
  const attention_shape& s = c.shape;
  const auto row = static_cast<std::size_t>(s.kv_heads * s.head_dim);
  const auto gap = [&](int heads) { return static_cast<std::size_t>(heads * s.head_dim); };
  attention_detail::attention_memory<Value> memory{w, c, gaps};
  const device_buffer<Value> k{w, attention_detail::spread_rows<Value>(c.k, row, gap(gaps.k))},
      v{w, attention_detail::spread_rows<Value>(c.v, row, gap(gaps.v))};
  const device_buffer<std::int32_t> cu_k{w, c.cu_k};
  varlen_attention_problem<Value> p;
  memory.give_to(p, s);
  p.k = k.data();
  p.v = v.data();
  p.cu_seqlens_q = memory.cu_q();
  p.cu_seqlens_k = cu_k.data();
  p.max_seqlen_q = attention_detail::longest(s.q_lens);
  p.max_seqlen_k = attention_detail::longest(s.k_lens);
  p.total_q = c.total_q();
  p.total_k = c.total_k();
  p.k_stride = gaps.k == 0 ? 0 : static_cast<std::int64_t>(row + gap(gaps.k));
  p.v_stride = gaps.v == 0 ? 0 : static_cast<std::int64_t>(row + gap(gaps.v));
  say(p);
  device_buffer<std::byte> scratch = attention_detail::scratch_for(w, p);
  varlen_attention(w, p, attention_detail::address_of(scratch));
  return memory.result();
}
template <class Value>
attention_result<Value> varlen_result(const world& w, const attention_case<Value>& c,
                                      const attention_gaps& gaps = {}) {
  return varlen_result(w, c, gaps, [](auto&) {});
}

/// The keys of a case in pages, in no order; all that no visible key is in is NaN, and its entry in the table no page.
template <class Value>
struct paged_keys {
  int num_pages = 0, page_size = 0, max_pages = 0;
  kv_layout layout = kv_layout::nhd;
  std::size_t page_values = 0;  // from page to page
  std::vector<Value> k, v;
  std::vector<std::int32_t> page_table, seqlens;
};

template <class Value>
paged_keys<Value> pages_of(const attention_case<Value>& c, int page_size, kv_layout layout,
                           std::uint32_t seed, const attention_gaps& gaps = {}) {
  const attention_shape& s = c.shape;
  const auto size = [](int n) { return static_cast<std::size_t>(n); };
  paged_keys<Value> p{.page_size = page_size, .layout = layout};
  p.max_pages = attention_detail::longest(s.k_lens) / page_size + 2;
  p.num_pages = s.batch() * p.max_pages + 3;
  p.page_values = size(page_size * s.kv_heads + gaps.page) * size(s.head_dim);
  p.k.assign(size(p.num_pages) * p.page_values, Value::from_bits(0xffff));
  p.v = p.k;
  p.page_table.assign(size(s.batch() * p.max_pages), -1);
  std::vector<std::int32_t> free_pages(size(p.num_pages));
  std::iota(free_pages.begin(), free_pages.end(), 0);
  std::shuffle(free_pages.begin(), free_pages.end(), std::mt19937{seed});
  for (int b = 0; b < s.batch(); ++b) {
    p.seqlens.push_back(s.k_lens[size(b)]);
    for (int key = 0; key < s.k_lens[size(b)]; ++key) {
      if (!c.is_seen(b, key)) continue;
      std::int32_t& entry = p.page_table[size(b * p.max_pages + key / page_size)];
      if (entry < 0) {
        entry = free_pages.back();
        free_pages.pop_back();
      }
      for (int h = 0; h < s.kv_heads; ++h) {
        const int row =
            layout == kv_layout::nhd ? key % page_size * s.kv_heads + h : h * page_size + key % page_size;
        const std::size_t from = c.k_at(c.cu_k[size(b)] + key, h),
                          to = size(entry) * p.page_values + size(row) * size(s.head_dim);
        std::copy_n(c.k.begin() + static_cast<std::ptrdiff_t>(from), s.head_dim,
                    p.k.begin() + static_cast<std::ptrdiff_t>(to));
        std::copy_n(c.v.begin() + static_cast<std::ptrdiff_t>(from), s.head_dim,
                    p.v.begin() + static_cast<std::ptrdiff_t>(to));
      }
    }
  }
  return p;
}

/// Entries that no visible key needs become what makes no sense, or pages of others.
template <class Value>
void spoil_unused(paged_keys<Value>& keys) {
  constexpr std::int32_t nonsense[] = {-1, 1 << 30, 0, std::numeric_limits<std::int32_t>::min(), 3, -7};
  int i = 0;
  for (std::int32_t& entry : keys.page_table)
    if (entry < 0) entry = nonsense[i++ % 6];
}

/// lse [batch, heads, q_len] as [heads, batch * q_len].
inline std::vector<float> lse_by_head(const std::vector<float>& lse, const attention_shape& s) {
  std::vector<float> made(lse.size());
  const auto rows = static_cast<std::size_t>(attention_detail::longest(s.q_lens)),
             heads = static_cast<std::size_t>(s.heads);
  for (std::size_t i = 0; i < lse.size(); ++i) {
    const std::size_t sequence = i / (heads * rows), head = i / rows % heads;
    made[(head * s.q_lens.size() + sequence) * rows + i % rows] = lse[i];
  }
  return made;
}

/// Sequences with different numbers of rows, or a tail, are told by cu_seqlens_q.
inline bool has_equal_rows(const attention_shape& s) {
  return s.tail == 0 &&
         std::count(s.q_lens.begin(), s.q_lens.end(), attention_detail::longest(s.q_lens)) == s.batch();
}
/// What is said of the pages alone.
template <class Value, class Cache>
void give_sizes_to(paged_attention_problem<Value, Cache>& p, const paged_keys<Cache>& keys) {
  p.num_pages = keys.num_pages;
  p.page_size = keys.page_size;
  p.max_pages = keys.max_pages;
  p.layout = keys.layout;
  p.page_stride = static_cast<std::int64_t>(keys.page_values);
}

/// `say(problem)` changes what is asked, as what keys are scaled by.
template <class Value, class Cache, class Say>
attention_result<Value> paged_result(const world& w, const attention_case<Value>& c,
                                     const paged_keys<Cache>& keys, const attention_gaps& gaps, Say say) {
  const attention_shape& s = c.shape;
  attention_detail::attention_memory<Value> memory{w, c, gaps};
  const device_buffer<Cache> k{w, keys.k}, v{w, keys.v};
  const device_buffer<std::int32_t> table{w, keys.page_table}, seqlens{w, keys.seqlens};
  paged_attention_problem<Value, Cache> p;
  memory.give_to(p, s);
  p.k_cache = k.data();
  p.v_cache = v.data();
  p.page_table = table.data();
  p.seqlens = seqlens.data();
  p.q_len = attention_detail::longest(s.q_lens);
  give_sizes_to(p, keys);
  const bool equal = has_equal_rows(s);
  if (!equal) {
    p.cu_seqlens_q = memory.cu_q();
    p.total_q = c.total_q();
  }
  say(p);
  device_buffer<std::byte> scratch = attention_detail::scratch_for(w, p);
  paged_attention(w, p, attention_detail::address_of(scratch));
  attention_result<Value> found = memory.result();
  if (equal) found.lse = lse_by_head(found.lse, s);
  return found;
}
template <class Value>
attention_result<Value> paged_result(const world& w, const attention_case<Value>& c,
                                     const paged_keys<Value>& keys, const attention_gaps& gaps = {}) {
  return paged_result(w, c, keys, gaps, [](auto&) {});
}

}  // namespace baton::test
