#pragma once
// Attention of few rows over keys in pages, on one device: ready to run, checked and timed. Runs go through several caches, one
// after the other, so that none finds its keys in the device's cache.
#include <functional>
#include <string>
#include <vector>

#include "baton/attention.hpp"
#include "baton/device_buffer.hpp"
#include "cli/bench/attention_points.hpp"
#include "cli/bench/gemm_operands.hpp"

namespace baton::cli {

/// Rows of each sequence are its last ones, and see the keys up to their own.
struct decode_size {
  attention_heads of;
  int batch = 1, rows = 1, keys = 0, page_size = 16;
  operand_format format = operand_format::bf16;  // or fp16
  int num_sms = 0;
  operand_format cache = format;  // or e4m3

  int pages() const;
  /// What row `row` of a sequence sees: from the first to in front of the last.
  int first_seen(int row) const;
  int end_seen(int row) const;
  /// A product with q and one with v for each pair of a row and a key that it sees.
  double flops() const;
  /// Keys and values that some row sees, and q, read, out written, once.
  double bytes() const;
  /// Of k and v, and how many of them runs go through: on CUDA more than the device's cache holds, up to 64.
  double cache_bytes() const;
  int caches(device_kind device) const;
};

/// What is asked, without memory: supports() says whether it is served.
template <class Value, class Cache = Value>
paged_attention_problem<Value, Cache> problem_of(const decode_size& size);

template <class Value, class Cache = Value>
using decode_work = std::function<void(const paged_attention_problem<Value, Cache>&, stream_ref)>;

/// Normally distributed values in pages in no order. `Value` is bfloat16 or float16, `Cache` the same or float8_e4m3, which are
/// scaled to about as much.
template <class Value, class Cache = Value>
class decode_session {
 public:
  decode_session(const world& world, const decode_size& size);

  /// The next cache's.
  paged_attention_problem<Value, Cache> problem();
  /// Poisons the result, runs once, and compares rows that are spread out with the formula in double precision. Empty: all are as
  /// near as fp32, and on CUDA weights of Value, make them.
  std::string first_wrong(const decode_work<Value, Cache>& run);
  void enqueue(const decode_work<Value, Cache>& run, stream_ref stream) { run(problem(), stream); }

 private:
  std::string wrong_row(int cache, int sequence, int row, int head) const;
  std::size_t place_of(int cache, int sequence, int key, int kv_head) const;

  world world_;
  decode_size size_;
  int caches_, next_ = 0;
  std::vector<std::int32_t> host_table_;
  gemm_operand<Value> q_;
  gemm_operand<Cache> k_, v_;
  device_buffer<float> descales_;  // of k, of v
  device_buffer<Value> out_;
  device_buffer<std::int32_t> table_, seqlens_;
};

extern template paged_attention_problem<bfloat16> problem_of(const decode_size&);
extern template paged_attention_problem<float16> problem_of(const decode_size&);
extern template paged_attention_problem<bfloat16, float8_e4m3> problem_of(const decode_size&);
extern template paged_attention_problem<float16, float8_e4m3> problem_of(const decode_size&);
extern template class decode_session<bfloat16>;
extern template class decode_session<float16>;
extern template class decode_session<bfloat16, float8_e4m3>;
extern template class decode_session<float16, float8_e4m3>;

}  // namespace baton::cli
