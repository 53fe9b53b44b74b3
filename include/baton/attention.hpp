#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "baton/numeric.hpp"
#include "baton/world.hpp"

namespace baton {

/// Which keys a row sees, and what becomes of its logits.
///
/// The last row of a sequence is level with its last key: row i of n sees key j of m if
/// `i + m - n - window_left <= j <= i + m - n + window_right`, where a window of -1 is no bound. `causal` is window_right 0,
/// whatever that says.
struct attention_options {
  std::optional<float> scale{};  // of q . k; none: 1 / sqrt(head_dim)
  bool causal = false;
  int window_left = -1, window_right = -1;
  float softcap = 0;             // logits x become softcap * tanh(x / softcap); 0: they stay
  const float* sinks = nullptr;  // [heads]: a logit of each head that joins the denominator alone; null: none
  int num_sms = 0;               // that work on it; 0: all of the rank's
};

/// Sequences one after the other, as flash_attn_varlen_func takes them. `Value` is bfloat16 or float16. Device memory.
template <class Value>
struct varlen_attention_problem {
  const Value* q = nullptr;  // [total_q, heads, head_dim]
  const Value* k = nullptr;  // [total_k, kv_heads, head_dim]
  const Value* v = nullptr;  // [total_k, kv_heads, head_dim]
  Value* out = nullptr;      // [total_q, heads, head_dim]
  float* lse = nullptr;      // [heads, total_q]; null: not wanted
  // Sequence b has the rows cu[b] to cu[b + 1] - 1. Null: each has max_seqlen_q or max_seqlen_k of them.
  const std::int32_t* cu_seqlens_q = nullptr;  // [batch + 1]
  const std::int32_t* cu_seqlens_k = nullptr;  // [batch + 1]
  int batch = 0;
  int max_seqlen_q = 0, max_seqlen_k = 0;  // of the longest sequence
  int total_q = 0, total_k = 0;            // rows that there is memory for
  int heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t q_stride = 0, k_stride = 0, v_stride = 0,
               out_stride = 0;  // values from row to row; 0: no gaps
  attention_options options{};
};

/// A page of a cache is [page_size, kv_heads, head_dim] or [kv_heads, page_size, head_dim].
enum class kv_layout { nhd, hnd };

constexpr const char* name(kv_layout l) {
  return l == kv_layout::hnd ? "hnd" : "nhd";
}

/// Sequences whose keys lie in pages, as flash_attn_with_kvcache takes them. `Value` is bfloat16 or float16, `Cache` the same or
/// float8_e4m3. Device memory.
template <class Value, class Cache = Value>
struct paged_attention_problem {
  const Value* q = nullptr;  // [batch, q_len, heads, head_dim]; [total_q, heads, head_dim] with cu_seqlens_q
  const Cache* k_cache = nullptr;  // [num_pages] pages
  const Cache* v_cache = nullptr;  // [num_pages] pages
  Value* out = nullptr;            // as q
  float* lse = nullptr;  // [batch, heads, q_len]; [heads, total_q] with cu_seqlens_q; null: not wanted
  const std::int32_t* page_table =
      nullptr;                            // [batch, max_pages]: key j is in page page_table[b, j / page_size]
  const std::int32_t* seqlens = nullptr;  // [batch]: keys of each sequence, those of the rows of q among them
  int batch = 0;
  int q_len = 0;  // rows of each sequence; with cu_seqlens_q of the longest
  int heads = 0, kv_heads = 0, head_dim = 0;
  int num_pages = 0, page_size = 0, max_pages = 0;
  kv_layout layout = kv_layout::nhd;
  std::int64_t page_stride = 0;                // values from page to page; 0: no gaps
  std::int64_t q_stride = 0, out_stride = 0;   // values from row to row; 0: no gaps
  const std::int32_t* cu_seqlens_q = nullptr;  // [batch + 1]; null: q_len rows each
  int total_q = 0;                             // rows that there is memory for, with cu_seqlens_q
  // What values of a cache of float8_e4m3 are multiplied by. Null: 1.
  const float* k_descale = nullptr;  // [1]; [kv_heads] with descale_by_head
  const float* v_descale = nullptr;  // as k_descale
  bool descale_by_head = false;
  attention_options options{};
};

/// Whether there is a kernel for a problem, and if not, why.
struct attention_support {
  std::string why_not{};  // which argument, what was found, what to do; empty: there is one
  explicit operator bool() const { return why_not.empty(); }
};

/// Of exactly this combination. Of pointers only whether they are null is looked at, and of those only the ones that may be.
/// Throws nothing: what the call would refuse as an invalid argument is a reason, too.
attention_support supports(device_kind device, const varlen_attention_problem<bfloat16>& problem);
attention_support supports(device_kind device, const varlen_attention_problem<float16>& problem);
attention_support supports(device_kind device, const paged_attention_problem<bfloat16>& problem);
attention_support supports(device_kind device, const paged_attention_problem<float16>& problem);
attention_support supports(device_kind device, const paged_attention_problem<bfloat16, float8_e4m3>& problem);
attention_support supports(device_kind device, const paged_attention_problem<float16, float8_e4m3>& problem);

/// Bytes of scratch that the call needs: a function of the sizes and options alone, 0 where none is needed. Zero-filled before
/// its first use; each call leaves it so that calls of any sizes that it is large enough for may have it next, one at a time. A
/// call that ended in `stuck` does not: fill it with zeros again.
/// @throws invalid_argument, unsupported  as the call
std::size_t attention_scratch_bytes(device_kind device, const varlen_attention_problem<bfloat16>& problem);
std::size_t attention_scratch_bytes(device_kind device, const varlen_attention_problem<float16>& problem);
std::size_t attention_scratch_bytes(device_kind device, const paged_attention_problem<bfloat16>& problem);
std::size_t attention_scratch_bytes(device_kind device, const paged_attention_problem<float16>& problem);
std::size_t attention_scratch_bytes(device_kind device,
                                    const paged_attention_problem<bfloat16, float8_e4m3>& problem);
std::size_t attention_scratch_bytes(device_kind device,
                                    const paged_attention_problem<float16, float8_e4m3>& problem);

/// Attention of each sequence's rows to its own keys: `out[i] = sum over j of w[i, j] * v[j]` with
/// `w[i, j] = exp(x[i, j] - lse[i])`, `x[i, j] = cap(scale * q[i] . k[j])` and
/// `lse[i] = log(exp(sink) + sum over j of exp(x[i, j]))`, where j are the keys that row i sees (attention_options); head h of q
/// meets head h / (heads / kv_heads) of k and v.
///
/// | argument       | shape                         | type         | layout, alignment                                          |
/// |----------------|-------------------------------|--------------|------------------------------------------------------------|
/// | `q`            | [total_q, heads, head_dim]    | bf16 or fp16 | a row without gaps; rows 16-byte aligned, q_stride apart   |
/// | `k`, `v`       | [total_k, kv_heads, head_dim] | that of q    | as q; k_stride and v_stride apart                          |
/// | `out`          | [total_q, heads, head_dim]    | that of q    | as q; rows of no sequence stay; overlaps nothing else      |
/// | `lse`          | [heads, total_q]              | fp32         | contiguous; natural logarithms; sinks are in it            |
/// | `cu_seqlens_*` | [batch + 1]                   | int32        | device memory; not decreasing, the last at most total_*    |
/// | `sinks`        | [heads]                       | fp32         | device memory; below +inf; no scale or cap applied to them |
/// | `scratch`      | see attention_scratch_bytes   |              | device memory, 256-byte aligned, zeros at first; or null   |
///
/// heads is kv_heads times 1 to 16; head_dim a multiple of 8 up to 512; rows of each tensor up to 2^28, and these, as
/// pages, up to 2^35 values apart. `supports` says what of that the device has kernels for. A row that sees no key gives 0 and an
/// lse of -inf, also with a sink, and touches none. Rows of k and v that no row of their sequence sees reach no output, whatever
/// is in them.
///
/// Rounding: products of q and k are exact in fp32; sums, logits and weights are fp32; out is rounded once. On CUDA weights are
/// rounded to the type of v before they multiply it, as tensor cores take them, and exp and tanh are the device's.
/// Deterministic: the same bits on every run. On the CPU also wherever a sequence or its pages lie, whatever else is in the
/// batch, and however many heads share a head of k.
///
/// Order: on `stream`; capturable; cu_seqlens_* are read on the device; no host synchronisation, no allocation on CUDA. Waits
/// inside are bounded by the world's deadline.
///
/// Cost: 4 heads head_dim flops for each pair of a row and a key that it sees. On the CPU it is one thread's loops, with scratch
/// of its own of some 100 KB.
/// @throws invalid_argument  a size, alignment or choice above does not hold: names the argument, the value and what is expected;
///                           nothing is enqueued
/// @throws unsupported       supports(world.device(), problem) says why
/// @throws cuda_error        the launch failed
/// Contents of cu_seqlens_* are on the device and not checked: where they decrease, leave the tensors, or a sequence is longer
/// than max_seqlen_* says, some rows' results are undefined, but nothing else is touched.
void varlen_attention(const world& world, const varlen_attention_problem<bfloat16>& problem, void* scratch,
                      stream_ref stream = {});
void varlen_attention(const world& world, const varlen_attention_problem<float16>& problem, void* scratch,
                      stream_ref stream = {});

/// The same of keys in pages: key j of sequence b lies in slot j % page_size of page page_table[b, j / page_size].
///
/// | argument             | shape                              | type         | layout, alignment                               |
/// |----------------------|------------------------------------|--------------|-------------------------------------------------|
/// | `q`, `out`           | [batch, q_len, heads, head_dim]    | bf16 or fp16 | as of varlen_attention                          |
/// | `k_cache`, `v_cache` | [num_pages], see kv_layout         | of q or e4m3 | pages 16-byte aligned, page_stride apart        |
/// | `page_table`         | [batch, max_pages]                 | int32        | device memory; entries of no visible key: any   |
/// | `seqlens`            | [batch]                            | int32        | device memory; up to max_pages * page_size      |
/// | `lse`                | [batch, heads, q_len]              | fp32         | contiguous; as of varlen_attention              |
/// | `*_descale`          | [1] or [kv_heads]                  | fp32         | device memory; finite; of e4m3; or null: 1      |
///
/// With cu_seqlens_q, q and out are [total_q, heads, head_dim] and lse is [heads, total_q], as of varlen_attention.
/// A sequence with seqlens 0, as one that pads a batch, gives 0 and -inf and touches no page, whatever the table says. Slots
/// behind a sequence's last key, and pages that no visible key is in, reach no output.
///
/// With a cache of float8_e4m3 head_dim and page_stride are multiples of 16. A key counts as k_descale times what stands there, a
/// value as v_descale times it, in fp32; NaN in one makes rows that see it NaN. q and out stay bf16 or fp16.
///
/// Rounding: as of varlen_attention; on the CPU the same bits, on CUDA the same on devices that have as many SMs for it. On CUDA
/// with a cache of e4m3 each row of q is scaled by a power of two, so that its largest magnitude is from 2^7 to 2^8, and rounded
/// to fp16: exact but for values below 2^-21 of that largest one. Weights are rounded to fp16, and to multiples of 2^-31 of a
/// row's largest.
///
/// Order: as there; seqlens, page_table and descales are read on the device, and a captured graph sees what they say then.
/// Scratch that holds what no call can have left there is `stuck` at the next world::synchronize, at "decode.parts_signed", and
/// out undefined.
///
/// Cost: as there. On CUDA a cache of e4m3 is read once for every up to 16 rows that share a head of k, tokens times heads of a
/// group, at any number of rows; after the first time from the L2 where it fits.
///
/// Errors: as there. Contents of seqlens, page_table and descales are not checked: where a page of a visible key is outside of
/// [0, num_pages) the sequence's results are undefined, but nothing else is touched.
void paged_attention(const world& world, const paged_attention_problem<bfloat16>& problem, void* scratch,
                     stream_ref stream = {});
void paged_attention(const world& world, const paged_attention_problem<float16>& problem, void* scratch,
                     stream_ref stream = {});
void paged_attention(const world& world, const paged_attention_problem<bfloat16, float8_e4m3>& problem,
                     void* scratch, stream_ref stream = {});
void paged_attention(const world& world, const paged_attention_problem<float16, float8_e4m3>& problem,
                     void* scratch, stream_ref stream = {});

}  // namespace baton
