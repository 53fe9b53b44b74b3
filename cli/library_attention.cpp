#include "cli/library_attention.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/math.hpp"
#include "baton/error.hpp"
#include "cli/model/norm.hpp"

namespace baton::cli {
namespace {

using model::attended_sequence, model::size;
using problem = paged_attention_problem<bfloat16>;

const memory_use for_keys{"keys and values of the sequences",
                          "use fewer or shorter prompts, or a lower --max-new"};
const memory_use for_rows{"rows of a step", "use fewer or shorter prompts"};

/// What is asked of every layer, without memory and lengths.
problem problem_of(const model::model_config& c) {
  problem p;
  p.heads = c.num_attention_heads;
  p.kv_heads = c.num_key_value_heads;
  p.head_dim = c.head_dim;
  p.page_size = library_attention::page_size;
  p.options.causal = true;
  return p;
}

int pages_for(std::int64_t positions) {
  return static_cast<int>(ceil_div<std::int64_t>(positions, library_attention::page_size));
}
std::size_t values_of_page(const model::model_config& c) {
  return size(library_attention::page_size) * size(c.num_key_value_heads) * size(c.head_dim);
}

void append_rounded(std::vector<bfloat16>& to, const float* from, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to.emplace_back(from[i]);
}

/// `to` is made anew if it is too small.
template <class T>
void put(const world& rank, device_buffer<T>& to, std::span<const T> values) {
  if (to.size() < values.size()) to = {rank, values.size(), for_rows};
  to.copy_from_async(values);
}

}  // namespace

/// What a call is made of, on the host: it stays until the stream has been synchronised.
struct library_attention::step {
  std::vector<bfloat16> q, keys, values;
  std::vector<std::int32_t> page_table, first_rows{0}, lengths;
  int max_pages = 0, most_rows = 0;
};

std::string library_attention::why_not(const model::model_config& config, device_kind device) {
  problem p = problem_of(config);
  static const std::int32_t some = 0;
  p.batch = p.q_len = p.num_pages = p.max_pages = p.total_q = 1;
  p.cu_seqlens_q = &some;
  return supports(device, p).why_not;
}

library_attention::library_attention(const model::model_config& config, const std::vector<world>& ranks,
                                     std::span<const std::vector<int>> positions)
    : config_{config} {
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    int pages = 0;
    for (const int n : positions[r]) pages += pages_for(n);
    if (const std::string reason = why_not(config, ranks[r].device()); !reason.empty())
      throw unsupported{reason};
    const std::size_t values = size(config.num_hidden_layers) * size(pages) * values_of_page(config);
    ranks_.push_back({.device = ranks[r],
                      .num_pages = pages,
                      .k = {ranks[r], values, for_keys},
                      .v = {ranks[r], values, for_keys},
                      .q = {},
                      .out = {},
                      .page_table = {},
                      .first_rows = {},
                      .lengths = {},
                      .scratch = {},
                      .pages = {}});
  }
}

/// As many as its rows need; a cache at its first position is a sequence that begins.
std::vector<std::int32_t>& library_attention::pages_of(rank_state& rank, const attended_sequence& of) {
  std::vector<std::int32_t>& own = rank.pages[of.cache];
  const int needed = pages_for(std::int64_t{of.cache->positions()} + of.tokens);
  while (static_cast<int>(own.size()) < needed) {
    if (rank.pages_taken == rank.num_pages)
      throw invalid_argument{
          fmt::format("sequences: expected a rank's to take {} pages of {} positions, as was said, found "
                      "that they take more",
                      rank.num_pages, page_size)};
    own.push_back(rank.pages_taken++);
  }
  return own;
}

/// The newest keys and values, which lie together on the host, to where their positions are.
void library_attention::put_keys(rank_state& rank, int layer, const attended_sequence& of, step& to) {
  const std::size_t row = size(of.cache->row()), begin = size(of.cache->positions());
  const std::vector<std::int32_t>& pages = rank.pages[of.cache];
  const std::size_t first = to.keys.size();
  append_rounded(to.keys, of.cache->keys(layer) + begin * row, size(of.tokens) * row);
  append_rounded(to.values, of.cache->values(layer) + begin * row, size(of.tokens) * row);
  for (std::size_t done = 0; done < size(of.tokens);) {
    const std::size_t position = begin + done, slot = position % size(page_size);
    const std::size_t rows = std::min(size(page_size) - slot, size(of.tokens) - done);
    const std::size_t page = size(layer) * size(rank.num_pages) + size(pages[position / size(page_size)]);
    const std::size_t at = (page * size(page_size) + slot) * row, from = first + done * row;
    copy_async(rank.device, rank.k.data() + at, to.keys.data() + from, rows * row * sizeof(bfloat16));
    copy_async(rank.device, rank.v.data() + at, to.values.data() + from, rows * row * sizeof(bfloat16));
    done += rows;
  }
}

library_attention::step library_attention::gather(rank_state& rank, int layer,
                                                  std::span<const attended_sequence> sequences) {
  const std::size_t q_row = size(config_.num_attention_heads) * size(config_.head_dim);
  step s;
  std::size_t rows = 0;
  for (const attended_sequence& of : sequences) {
    s.max_pages = std::max(s.max_pages, static_cast<int>(pages_of(rank, of).size()));
    s.most_rows = std::max(s.most_rows, of.tokens);
    rows += size(of.tokens);
  }
  s.keys.reserve(rows * size(sequences[0].cache->row()));  // copies are under way while more are appended
  s.values.reserve(s.keys.capacity());
  for (const attended_sequence& of : sequences) {
    append_rounded(s.q, of.q, size(of.tokens) * q_row);
    put_keys(rank, layer, of, s);
    std::vector<std::int32_t> pages = rank.pages[of.cache];
    pages.resize(size(s.max_pages), 0);
    s.page_table.insert(s.page_table.end(), pages.begin(), pages.end());
    s.first_rows.push_back(s.first_rows.back() + of.tokens);
    s.lengths.push_back(of.cache->positions() + of.tokens);
  }
  return s;
}

void library_attention::enqueue(rank_state& rank, int layer, const step& s) {
  put<bfloat16>(rank.device, rank.q, s.q);
  put<std::int32_t>(rank.device, rank.page_table, s.page_table);
  put<std::int32_t>(rank.device, rank.first_rows, s.first_rows);
  put<std::int32_t>(rank.device, rank.lengths, s.lengths);
  if (rank.out.size() < s.q.size()) rank.out = {rank.device, s.q.size(), for_rows};
  problem p = problem_of(config_);
  const std::size_t first = size(layer) * size(rank.num_pages) * values_of_page(config_);
  p.q = rank.q.data();
  p.k_cache = rank.k.data() + first;
  p.v_cache = rank.v.data() + first;
  p.out = rank.out.data();
  p.page_table = rank.page_table.data();
  p.cu_seqlens_q = rank.first_rows.data();
  p.seqlens = rank.lengths.data();
  p.batch = static_cast<int>(s.lengths.size());
  p.q_len = s.most_rows;
  p.total_q = s.first_rows.back();
  p.num_pages = rank.num_pages;
  p.max_pages = s.max_pages;
  if (const std::size_t bytes = attention_scratch_bytes(rank.device.device(), p); rank.scratch.size() < bytes)
    rank.scratch = {rank.device, bytes, for_rows};
  paged_attention(rank.device, p, rank.scratch.size() == 0 ? nullptr : rank.scratch.data());
}

void library_attention::run(int rank, int layer, std::span<const attended_sequence> sequences) {
  if (sequences.empty()) return;
  rank_state& own = ranks_.at(size(rank));
  const step s = gather(own, layer, sequences);
  enqueue(own, layer, s);
  const std::vector<bfloat16> out = to_host(own.device, own.out.data(), s.q.size());
  auto from = out.begin();
  for (const attended_sequence& of : sequences) {
    const std::size_t n = size(of.tokens) * size(config_.num_attention_heads) * size(config_.head_dim);
    std::transform(from, from + static_cast<std::ptrdiff_t>(n), of.out, [](bfloat16 v) { return float{v}; });
    from += static_cast<std::ptrdiff_t>(n);
  }
}

}  // namespace baton::cli
