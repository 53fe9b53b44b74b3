#include "cli/bench/decode_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <type_traits>

#include "base/math.hpp"
#include "cli/bench/attention_row.hpp"

namespace baton::cli {
namespace {

const memory_use of_decode{"the caches", "ask for fewer or shorter sequences"};
constexpr int checked_decode_rows = 13;     // a prime: rows of all remainders
constexpr double cycled_bytes = 256 << 20;  // more than the L2 of any GPU that there are kernels for holds
constexpr int most_caches = 64;
constexpr float e4m3_descales[] = {0x1p-7f, 0x1p-6f};  // of k, of v, which lie around 100
template <class Cache>
constexpr bool is_scaled = std::is_same_v<Cache, float8_e4m3>;

std::size_t as_size(std::int64_t n) {
  return static_cast<std::size_t>(n);
}
std::size_t page_values(const decode_size& s) {
  return as_size(std::int64_t{s.page_size} * s.of.kv_heads * s.of.head_dim);
}
std::size_t row_values(const decode_size& s) {
  return as_size(std::int64_t{s.batch} * s.rows * s.of.heads * s.of.head_dim);
}

std::vector<std::int32_t> shuffled_pages(const decode_size& s) {
  std::vector<std::int32_t> pages(as_size(std::int64_t{s.batch} * s.pages()));
  std::iota(pages.begin(), pages.end(), 0);
  std::shuffle(pages.begin(), pages.end(), std::mt19937{5});
  return pages;
}

}  // namespace

int decode_size::pages() const {
  return ceil_div(keys, page_size);
}
int decode_size::end_seen(int row) const {
  return larger(keys - rows + row + 1, 0);
}
int decode_size::first_seen(int row) const {
  return of.window > 0 ? larger(end_seen(row) - of.window, 0) : 0;
}
double decode_size::flops() const {
  double pairs = 0;
  for (int row = 0; row < rows; ++row) pairs += end_seen(row) - first_seen(row);
  return 4.0 * batch * of.heads * of.head_dim * pairs;
}
double decode_size::bytes() const {
  const double seen = end_seen(rows - 1) - first_seen(0);
  return 2.0 * batch * of.head_dim *
         (value_bytes(cache) * seen * of.kv_heads + value_bytes(format) * 1.0 * rows * of.heads);
}
double decode_size::cache_bytes() const {
  return 2.0 * value_bytes(cache) * batch * pages() * page_size * of.kv_heads * of.head_dim;
}
int decode_size::caches(device_kind device) const {
  if (device == device_kind::cpu) return 2;
  return std::clamp(static_cast<int>(cycled_bytes / cache_bytes()) + 1, 2, most_caches);
}

template <class Value, class Cache>
paged_attention_problem<Value, Cache> problem_of(const decode_size& s) {
  paged_attention_problem<Value, Cache> p;
  p.batch = s.batch;
  p.q_len = s.rows;
  p.heads = s.of.heads;
  p.kv_heads = s.of.kv_heads;
  p.head_dim = s.of.head_dim;
  p.num_pages = s.batch * s.pages();
  p.page_size = s.page_size;
  p.max_pages = s.pages();
  p.options.causal = true;
  p.options.window_left = s.of.window > 0 ? s.of.window - 1 : -1;
  p.options.num_sms = s.num_sms;
  return p;
}

template <class Value, class Cache>
decode_session<Value, Cache>::decode_session(const world& world, const decode_size& s)
    : world_{world},
      size_{s},
      caches_{s.caches(world.device())},
      host_table_{shuffled_pages(s)},
      q_{world, row_values(s), 1, of_decode},
      k_{world, as_size(caches_) * host_table_.size() * page_values(s), 2, of_decode},
      v_{world, as_size(caches_) * host_table_.size() * page_values(s), 3, of_decode},
      descales_{world, std::vector<float>{e4m3_descales[0], e4m3_descales[1]}},
      out_{world, row_values(s), of_decode},
      table_{world, host_table_},
      seqlens_{world, std::vector<std::int32_t>(as_size(s.batch), s.keys)} {
  q_.random_values();
  k_.random_values();
  v_.random_values();
}

template <class Value, class Cache>
paged_attention_problem<Value, Cache> decode_session<Value, Cache>::problem() {
  auto p = problem_of<Value, Cache>(size_);
  const std::size_t cache = as_size(next_) * host_table_.size() * page_values(size_);
  next_ = (next_ + 1) % caches_;
  p.q = q_.data();
  p.k_cache = k_.data() + cache;
  p.v_cache = v_.data() + cache;
  p.out = out_.data();
  p.page_table = table_.data();
  p.seqlens = seqlens_.data();
  if constexpr (is_scaled<Cache>) p.k_descale = descales_.data(), p.v_descale = descales_.data() + 1;
  return p;
}

/// Pages are [page_size, kv_heads, head_dim].
template <class Value, class Cache>
std::size_t decode_session<Value, Cache>::place_of(int cache, int sequence, int key, int kv_head) const {
  const std::size_t entry = as_size(std::int64_t{sequence} * size_.pages() + key / size_.page_size);
  const std::size_t page = as_size(cache) * host_table_.size() + as_size(host_table_[entry]);
  return page * page_values(size_) +
         as_size((std::int64_t{key % size_.page_size} * size_.of.kv_heads + kv_head) * size_.of.head_dim);
}

template <class Value, class Cache>
std::string decode_session<Value, Cache>::wrong_row(int cache, int sequence, int row, int head) const {
  const int kv_head = head / (size_.of.heads / size_.of.kv_heads);
  const auto reader_of = [&](const gemm_operand<Cache>& from, double descale) -> key_reader {
    return [&, cache, sequence, kv_head, descale](int key, std::span<double> to) {
      from.read(place_of(cache, sequence, key, kv_head), to);
      if constexpr (is_scaled<Cache>)
        for (double& v : to) v *= descale;
    };
  };
  std::vector<double> q(as_size(size_.of.head_dim));
  const std::size_t at =
      as_size(((std::int64_t{sequence} * size_.rows + row) * size_.of.heads + head) * size_.of.head_dim);
  q_.read(at, q);
  using weights = std::conditional_t<is_scaled<Cache>, float16, Value>;
  const std::string wrong = first_wrong_in_row<Value>(
      expected_row<weights>(q, size_.first_seen(row), size_.end_seen(row), reader_of(k_, e4m3_descales[0]),
                            reader_of(v_, e4m3_descales[1]), world_.device() == device_kind::cuda),
      to_host(world_, out_.data() + at, q.size()));
  return wrong.empty() ? wrong : fmt::format("out[{}, {}, {}, {}", sequence, row, head, wrong);
}

template <class Value, class Cache>
std::string decode_session<Value, Cache>::first_wrong(const decode_work<Value, Cache>& run) {
  constexpr unsigned char poison = 0xff;  // NaN
  out_.fill_async(poison);
  const int cache = next_;
  enqueue(run, {});
  for (int i = 0; i <= checked_decode_rows; ++i) {
    const int sequence = static_cast<int>(std::int64_t{size_.batch - 1} * i / checked_decode_rows);
    if (const std::string wrong = wrong_row(cache, sequence, i % size_.rows, i % size_.of.heads);
        !wrong.empty())
      return wrong;
  }
  return {};
}

template paged_attention_problem<bfloat16> problem_of(const decode_size&);
template paged_attention_problem<float16> problem_of(const decode_size&);
template paged_attention_problem<bfloat16, float8_e4m3> problem_of(const decode_size&);
template paged_attention_problem<float16, float8_e4m3> problem_of(const decode_size&);
template class decode_session<bfloat16>;
template class decode_session<float16>;
template class decode_session<bfloat16, float8_e4m3>;
template class decode_session<float16, float8_e4m3>;

}  // namespace baton::cli
