#include "kernels/attention/support.hpp"

#include <fmt/format.h>

#include <limits>

#include "kernels/attention/instances.hpp"
#include "kernels/attention/pages.hpp"
#include "kernels/attention/params.hpp"

namespace baton::attention_kernels {
namespace {

template <class Value>
std::string why_no_pages(const operands<Value>& asked) {
  if (box_bits_of(asked.page_size) == 0)
    return fmt::format(
        "page_size is {}; kernels for GPUs take multiples of 16: make pages of that, or use a CPU world",
        asked.page_size);
  if (asked.page_step % asked.k_row != 0)
    return fmt::format("page_stride is {}; kernels for GPUs take multiples of {}, a row of layout {}",
                       asked.page_step, asked.k_row, name(asked.layout));
  if (rows_of_pages(asked) > most_page_rows)
    return fmt::format("num_pages is {}; kernels for GPUs take as many as have {} rows, and these have {}",
                       asked.num_pages, most_page_rows, rows_of_pages(asked));
  if (const std::int64_t entries = std::int64_t{asked.batch} * asked.max_pages;
      entries > std::numeric_limits<std::int32_t>::max())
    return fmt::format("batch * max_pages is {}; kernels for GPUs take up to {}", entries,
                       std::numeric_limits<std::int32_t>::max());
  return {};
}

/// Blocks that the kernel is launched with: for each head of each sequence those of the longest one's rows.
template <class Value>
std::int64_t blocks_of(const operands<Value>& asked) {
  return std::int64_t{ceil_div(asked.q_len, block_rows)} * asked.heads * asked.batch *
         larger(asked.head_dim / most_block_columns, 1);
}

}  // namespace

template <class Value>
std::string why_not_on_cuda(const operands<Value>& asked) {
  if (kernel_dim_of(asked.head_dim) == 0)
    return fmt::format(
        "head_dim is {}; kernels for GPUs are of 64, 128, 256 and 512: compute it on a CPU world",
        asked.head_dim);
  if (!(asked.scale > 0))
    return fmt::format("scale is {}; kernels for GPUs take those above 0: scale q itself", asked.scale);
  if (asked.num_sms != 0)
    return fmt::format("num_sms is {}; kernels for GPUs take every SM that is free: leave it 0",
                       asked.num_sms);
  constexpr std::int64_t most_blocks = std::numeric_limits<std::int32_t>::max();
  if (const std::int64_t blocks = blocks_of(asked); blocks > most_blocks)
    return fmt::format(
        "{} is {}, which with batch {} and heads {} makes {} blocks; a launch has up to {}: say how long the "
        "longest sequence is, or make more calls",
        asked.paged ? "q_len" : "max_seqlen_q", asked.q_len, asked.batch, asked.heads, blocks, most_blocks);
  if (asked.paged) return why_no_pages(asked);
  return {};
}

template std::string why_not_on_cuda(const operands<bfloat16>&);
template std::string why_not_on_cuda(const operands<float16>&);

}  // namespace baton::attention_kernels
