// What attention refuses, by name and value, before anything is enqueued; and what it says of kernels that there are.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "baton/attention.hpp"
#include "baton/error.hpp"
#include "kernels/attention/arguments.hpp"
#include "kernels/attention/params.hpp"
#include "kernels/decode_attention/launch.hpp"
#include "tests/cpu/says.hpp"

namespace baton {
namespace {

using test::message_of;
using test::says;

alignas(256) std::byte some_memory[1 << 12];

template <class T>
T* some_values() {
  return reinterpret_cast<T*>(some_memory);
}
template <class T>
T* misaligned(T* at) {
  return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(at) + 1);
}

using varlen = varlen_attention_problem<bfloat16>;
using paged = paged_attention_problem<float16>;

varlen good_varlen() {
  varlen p;
  p.q = p.k = p.v = some_values<bfloat16>();
  p.out = some_values<bfloat16>();
  p.batch = 2;
  p.max_seqlen_q = 3;
  p.max_seqlen_k = 5;
  p.total_q = 6;
  p.total_k = 10;
  p.heads = 4;
  p.kv_heads = 2;
  p.head_dim = 16;
  return p;
}
paged good_paged() {
  paged p;
  p.q = p.k_cache = p.v_cache = some_values<float16>();
  p.out = some_values<float16>();
  p.page_table = p.seqlens = some_values<std::int32_t>();
  p.batch = 2;
  p.q_len = 1;
  p.heads = 4;
  p.kv_heads = 2;
  p.head_dim = 16;
  p.num_pages = 3;
  p.page_size = 16;
  p.max_pages = 2;
  return p;
}

std::string varlen_refusal(const std::function<void(varlen&)>& damage) {
  varlen p = good_varlen();
  damage(p);
  const world cpu = world::local(1, device_kind::cpu)[0];
  return message_of<invalid_argument>([&] { varlen_attention(cpu, p, nullptr); });
}
std::string paged_refusal(const std::function<void(paged&)>& damage) {
  paged p = good_paged();
  damage(p);
  const world cpu = world::local(1, device_kind::cpu)[0];
  return message_of<invalid_argument>([&] { paged_attention(cpu, p, nullptr); });
}

TEST(attention_arguments, what_the_interface_allows_is_served_on_the_cpu) {
  EXPECT_TRUE(supports(device_kind::cpu, good_varlen()));
  EXPECT_TRUE(supports(device_kind::cpu, good_paged()));
  EXPECT_EQ(attention_scratch_bytes(device_kind::cpu, good_varlen()), 0u);
  EXPECT_EQ(attention_scratch_bytes(device_kind::cpu, good_paged()), 0u);
}

TEST(attention_arguments, nothing_is_touched_where_there_are_no_rows) {
  const world cpu = world::local(1, device_kind::cpu)[0];
  varlen none;
  none.heads = none.kv_heads = 1;
  none.head_dim = 8;
  EXPECT_NO_THROW(varlen_attention(cpu, none, nullptr));
  none.batch = 3;
  EXPECT_NO_THROW(varlen_attention(cpu, none, nullptr));
  paged no_rows = good_paged();
  no_rows.q_len = 0;
  no_rows.q = nullptr;
  no_rows.out = nullptr;
  EXPECT_NO_THROW(paged_attention(cpu, no_rows, nullptr));
  varlen empty_sequences = good_varlen();
  empty_sequences.cu_seqlens_q = some_values<std::int32_t>();
  empty_sequences.max_seqlen_q = 0;
  empty_sequences.q = nullptr;
  empty_sequences.out = nullptr;
  EXPECT_NO_THROW(varlen_attention(cpu, empty_sequences, nullptr))
      << "a launch of no blocks would be refused";
  EXPECT_NO_THROW(cpu.synchronize());
}

TEST(attention_arguments, heads_that_do_not_fit_are_refused_by_name_and_value) {
  EXPECT_TRUE(says(varlen_refusal([](varlen& p) { p.kv_heads = 0; }), "varlen_attention: kv_heads is 0",
                   "from 1 to"));
  EXPECT_TRUE(says(varlen_refusal([](varlen& p) { p.heads = -4; }), "heads is -4", "from 1 to"));
  EXPECT_TRUE(
      says(varlen_refusal([](varlen& p) { p.heads = 5; }), "heads is 5 and kv_heads is 2", "times 1 to 16"));
  EXPECT_TRUE(says(varlen_refusal([](varlen& p) { p.heads = 34; }), "heads is 34 and kv_heads is 2"));
  for (const int dim : {0, 4, 12, 520})
    EXPECT_TRUE(says(varlen_refusal([dim](varlen& p) { p.head_dim = dim; }),
                     "head_dim is " + std::to_string(dim), "multiple of 8 from 8 to 512", "pad"));
  EXPECT_TRUE(says(paged_refusal([](paged& p) { p.heads = 5; }), "paged_attention: heads is 5"));
}

TEST(attention_arguments, options_that_mean_nothing_are_refused) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(),
                  infinity = std::numeric_limits<float>::infinity();
  for (const float scale : {nan, infinity})
    EXPECT_TRUE(
        says(varlen_refusal([scale](varlen& p) { p.options.scale = scale; }), "options.scale is", "finite"));
  for (const float cap : {nan, infinity, -1.0f})
    EXPECT_TRUE(says(varlen_refusal([cap](varlen& p) { p.options.softcap = cap; }), "options.softcap is",
                     "positive"));
  EXPECT_TRUE(
      says(varlen_refusal([](varlen& p) { p.options.window_left = -2; }), "options.window_left is -2"));
  EXPECT_TRUE(
      says(varlen_refusal([](varlen& p) { p.options.window_right = -3; }), "options.window_right is -3"));
  EXPECT_TRUE(says(varlen_refusal([](varlen& p) { p.options.num_sms = -1; }), "options.num_sms is -1"));
}

TEST(attention_arguments, lengths_and_strides_that_do_not_fit_are_refused) {
  EXPECT_TRUE(says(varlen_refusal([](varlen& p) { p.batch = -1; }), "batch is -1"));
  EXPECT_TRUE(says(varlen_refusal([](varlen& p) { p.max_seqlen_q = -1; }), "max_seqlen_q is -1"));
  EXPECT_TRUE(says(varlen_refusal([](varlen& p) { p.max_seqlen_k = -1; }), "max_seqlen_k is -1"));
  EXPECT_TRUE(says(varlen_refusal([](varlen& p) { p.total_k = (1 << 28) + 1; }), "total_k is 268435457"));
  EXPECT_TRUE(
      says(varlen_refusal([](varlen& p) { p.total_q = 7; }), "total_q is 7", "batch * max_seqlen_q = 2 * 3"));
  EXPECT_TRUE(says(varlen_refusal([](varlen& p) { p.total_k = 11; }), "total_k is 11",
                   "batch * max_seqlen_k = 2 * 5"));
  EXPECT_TRUE(
      says(varlen_refusal([](varlen& p) { p.q_stride = 56; }), "q_stride is 56", "multiple of 8 from 64 on"));
  EXPECT_TRUE(says(varlen_refusal([](varlen& p) { p.out_stride = 68; }), "out_stride is 68"));
  EXPECT_TRUE(says(varlen_refusal([](varlen& p) { p.k_stride = 24; }), "k_stride is 24", "from 32 on"));
  EXPECT_TRUE(says(varlen_refusal([](varlen& p) { p.v_stride = -32; }), "v_stride is -32"));
}

TEST(attention_arguments, pages_that_do_not_fit_are_refused) {
  EXPECT_TRUE(says(paged_refusal([](paged& p) { p.q_len = -1; }), "q_len is -1"));
  EXPECT_TRUE(says(paged_refusal([](paged& p) { p.num_pages = -1; }), "num_pages is -1"));
  EXPECT_TRUE(says(paged_refusal([](paged& p) { p.page_size = 0; }), "page_size is 0"));
  EXPECT_TRUE(
      says(paged_refusal([](paged& p) { p.max_pages = 1 << 25; }), "max_pages is 33554432", "to 16777216"));
  EXPECT_TRUE(says(paged_refusal([](paged& p) { p.layout = kv_layout{4}; }), "layout is 4", "no kv_layout"));
  EXPECT_TRUE(
      says(paged_refusal([](paged& p) { p.page_stride = 504; }), "page_stride is 504", "from 512 on"));
  EXPECT_TRUE(says(paged_refusal([](paged& p) { p.q_len = 1 << 28; }), "batch * q_len is 536870912"));
  EXPECT_TRUE(says(paged_refusal([](paged& p) {
                     p.cu_seqlens_q = p.seqlens;
                     p.total_q = -1;
                   }),
                   "total_q is -1"));
}

TEST(attention_arguments, rows_and_pages_that_lie_further_apart_than_copies_reach_are_refused) {
  constexpr std::int64_t most = std::int64_t{1} << 35;
  varlen far = good_varlen();
  far.k_stride = most;
  EXPECT_TRUE(supports(device_kind::cpu, far));
  EXPECT_TRUE(says(varlen_refusal([](varlen& p) { p.k_stride = most + 8; }), "k_stride is 34359738376",
                   "to 34359738368"));
  EXPECT_TRUE(says(paged_refusal([](paged& p) { p.page_stride = std::int64_t{1} << 62; }),
                   "page_stride is 4611686018427387904", "to 34359738368"));
  EXPECT_TRUE(says(paged_refusal([](paged& p) {
                     p.heads = p.kv_heads = 1 << 16;
                     p.page_size = 1 << 16;
                   }),
                   "page_stride is 0, which here means 68719476736", "to 34359738368"));
}

TEST(attention_arguments, calls_of_more_blocks_than_a_launch_has_are_refused_with_their_number) {
  varlen p = good_varlen();
  p.cu_seqlens_q = p.cu_seqlens_k = some_values<std::int32_t>();
  p.head_dim = 512, p.heads = p.kv_heads = 32;
  p.batch = 4096, p.max_seqlen_q = p.total_q = 1 << 19;
  EXPECT_TRUE(supports(device_kind::cuda, p)) << "2^30 blocks, in pairs";
  p.max_seqlen_q = p.total_q = 1 << 20;
  EXPECT_TRUE(says(supports(device_kind::cuda, p).why_not, "max_seqlen_q is 1048576", "2147483648 blocks",
                   "up to 2147483647"));
  p.head_dim = 256;
  EXPECT_TRUE(supports(device_kind::cuda, p)) << "blocks alone";
  EXPECT_TRUE(supports(device_kind::cpu, p));
  paged pages = good_paged();
  pages.head_dim = 512, pages.batch = 1 << 20, pages.heads = pages.kv_heads = 16;
  pages.cu_seqlens_q = some_values<std::int32_t>();
  pages.q_len = pages.total_q = 1 << 14;
  EXPECT_TRUE(says(supports(device_kind::cuda, pages).why_not, "q_len is 16384", "4294967296 blocks"));
}

TEST(attention_arguments, blocks_of_heads_whose_keys_fit_into_the_cache_together_are_counted_in_31_bits) {
  varlen p = good_varlen();
  p.cu_seqlens_q = p.cu_seqlens_k = some_values<std::int32_t>();
  p.head_dim = 256, p.heads = 16, p.kv_heads = 1;
  p.max_seqlen_q = p.total_q = 1 << 22, p.max_seqlen_k = p.total_k = 1;
  ASSERT_TRUE(supports(device_kind::cuda, p));
  const auto order = attention_kernels::order_of(attention_kernels::operands_of(p));
  EXPECT_LE(std::int64_t{order.heads_together} * order.blocks, std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(order.heads_together, 32) << "all there are";
}

TEST(attention_arguments, memory_that_is_null_or_misaligned_is_refused) {
  EXPECT_TRUE(says(varlen_refusal([](varlen& p) { p.q = nullptr; }), "q is null"));
  EXPECT_TRUE(says(varlen_refusal([](varlen& p) { p.k = p.k + 1; }), "k is", "multiple of 16 bytes"));
  EXPECT_TRUE(says(varlen_refusal([](varlen& p) { p.v = nullptr; }), "v is null"));
  EXPECT_TRUE(says(varlen_refusal([](varlen& p) { p.out = p.out + 4; }), "out is", "multiple of 16 bytes"));
  EXPECT_TRUE(says(varlen_refusal([](varlen& p) { p.lse = misaligned(some_values<float>()); }), "lse is",
                   "multiple of 4 bytes"));
  EXPECT_TRUE(says(varlen_refusal([](varlen& p) { p.options.sinks = misaligned(some_values<float>()); }),
                   "options.sinks is"));
  EXPECT_TRUE(
      says(varlen_refusal([](varlen& p) { p.cu_seqlens_q = misaligned(some_values<std::int32_t>()); }),
           "cu_seqlens_q is"));
  EXPECT_TRUE(
      says(varlen_refusal([](varlen& p) { p.cu_seqlens_k = misaligned(some_values<std::int32_t>()); }),
           "cu_seqlens_k is"));
  EXPECT_TRUE(says(paged_refusal([](paged& p) { p.seqlens = nullptr; }), "seqlens is null"));
  EXPECT_TRUE(says(paged_refusal([](paged& p) { p.page_table = nullptr; }), "page_table is null"));
  EXPECT_TRUE(says(paged_refusal([](paged& p) { p.k_cache = nullptr; }), "k_cache is null"));
  EXPECT_TRUE(says(paged_refusal([](paged& p) { p.v_cache = p.v_cache + 1; }), "v_cache is", "16 bytes"));
}

TEST(attention_arguments, what_is_refused_is_a_reason_and_no_exception_where_it_is_asked) {
  varlen p = good_varlen();
  p.head_dim = 12;
  EXPECT_TRUE(says(supports(device_kind::cpu, p).why_not, "varlen_attention: head_dim is 12"));
  p = good_varlen();
  p.q = nullptr;
  EXPECT_TRUE(supports(device_kind::cpu, p)) << "memory is not looked at";
}

TEST(attention_arguments, what_no_kernel_does_is_named_with_its_size) {
  varlen p = good_varlen();
  p.head_dim = 24;
  EXPECT_FALSE(supports(device_kind::cuda, p));
  EXPECT_TRUE(says(supports(device_kind::cuda, p).why_not, "varlen_attention: head_dim is 24", "CPU"));
  EXPECT_TRUE(says(message_of<unsupported>([&] { attention_scratch_bytes(device_kind::cuda, p); }),
                   "head_dim is 24"));
}

TEST(attention_arguments, pages_that_no_kernel_takes_are_named_with_what_they_would_have_to_be) {
  const auto with = [](const std::function<void(paged&)>& change) {
    paged p = good_paged();
    p.head_dim = 256;
    p.q_len = 200;
    change(p);
    return supports(device_kind::cuda, p).why_not;
  };
  for (const int size : {16, 32, 48, 64, 256}) EXPECT_EQ(with([size](paged& p) { p.page_size = size; }), "");
  EXPECT_TRUE(
      says(with([](paged& p) { p.page_size = 24; }), "paged_attention: page_size is 24", "multiples of 16"));
  const std::int64_t row = 2 * 256;
  EXPECT_EQ(with([row](paged& p) { p.page_stride = 17 * row; }), "");
  EXPECT_TRUE(says(with([row](paged& p) { p.page_stride = 16 * row + 256; }), "page_stride is 8448",
                   "multiples of 512", "layout nhd"));
  EXPECT_EQ(with([row](paged& p) {
              p.layout = kv_layout::hnd;
              p.page_stride = 16 * row + 256;
            }),
            "");
  EXPECT_TRUE(says(with([](paged& p) { p.num_pages = 1 << 27; }), "num_pages is 134217728", "2147483648"));
  EXPECT_TRUE(says(with([](paged& p) {
                     p.batch = 1 << 20;
                     p.max_pages = 1 << 12;
                   }),
                   "batch * max_pages is 4294967296"));
}

TEST(attention_arguments, few_rows_have_a_kernel_that_takes_pages_with_any_gaps_and_some_sms) {
  const auto with = [](const std::function<void(paged&)>& change) {
    paged p = good_paged();
    p.head_dim = 512;
    change(p);
    return supports(device_kind::cuda, p).why_not;
  };
  const auto gap_and_rows = [&](int rows) {
    return with([rows](paged& p) {
      p.page_stride = 16 * 2 * 512 + 8;
      p.q_len = rows;
    });
  };
  EXPECT_EQ(gap_and_rows(1), "");
  EXPECT_EQ(gap_and_rows(64), "") << "rows of both heads of a group: 128";
  EXPECT_TRUE(says(gap_and_rows(65), "page_stride is 16392"));
  EXPECT_EQ(with([](paged& p) { p.options.num_sms = 7; }), "");
  EXPECT_TRUE(says(with([](paged& p) { p.options.num_sms = 7, p.q_len = 65; }), "num_sms is 7"));
  EXPECT_TRUE(says(with([](paged& p) { p.page_size = 24; }), "page_size is 24", "multiples of 16"));
  EXPECT_TRUE(says(with([](paged& p) { p.options.scale = -1.0f; }), "scale is -1"));
  paged most = good_paged();
  most.head_dim = 512, most.batch = 1 << 20, most.heads = most.kv_heads = 1 << 16, most.max_pages = 1 << 24;
  EXPECT_TRUE(says(decode_attention::why_not(attention_kernels::operands_of(most)), "batch 1048576",
                   "kv_heads 65536", "max_pages * page_size 268435456"));
}

TEST(attention_arguments, scratch_is_asked_for_by_sizes_alone_and_only_where_items_may_be_cut) {
  const auto bytes = [](int max_pages, int q_len, int batch, int num_sms = 0) {
    paged p = good_paged();
    p.head_dim = 512, p.page_size = 16;
    p.max_pages = max_pages, p.q_len = q_len, p.batch = batch;
    p.options.num_sms = num_sms;
    const std::size_t on_cuda = attention_scratch_bytes(device_kind::cuda, p);
    p.q = p.k_cache = p.v_cache = nullptr;
    p.page_table = p.seqlens = nullptr;
    EXPECT_EQ(attention_scratch_bytes(device_kind::cuda, p), on_cuda) << "memory is not looked at";
    EXPECT_EQ(attention_scratch_bytes(device_kind::cpu, p), 0u);
    return on_cuda;
  };
  EXPECT_EQ(bytes(4, 1, 1), 0u) << "64 keys are of one block";
  EXPECT_GT(bytes(512, 1, 1), 0u);
  EXPECT_EQ(bytes(512, 1, 1), bytes(4096, 1, 1)) << "a block has at most two parts, however long";
  EXPECT_GT(bytes(512, 4, 1), bytes(512, 1, 1));
  EXPECT_GT(bytes(512, 1, 100), bytes(512, 1, 1)) << "blocks alone have all columns";
  EXPECT_EQ(bytes(512, 1, 1, 5), bytes(512, 1, 1));
  EXPECT_EQ(bytes(512, 65, 1), 0u) << "of many rows";
}

using paged_e4m3 = paged_attention_problem<bfloat16, float8_e4m3>;

paged_e4m3 good_paged_e4m3() {
  paged_e4m3 p;
  p.q = p.out = some_values<bfloat16>();
  p.k_cache = p.v_cache = some_values<float8_e4m3>();
  p.page_table = p.seqlens = some_values<std::int32_t>();
  p.k_descale = p.v_descale = some_values<float>();
  p.batch = 2;
  p.q_len = 1;
  p.heads = 4;
  p.kv_heads = 2;
  p.head_dim = 512;
  p.num_pages = 3;
  p.page_size = 16;
  p.max_pages = 2;
  return p;
}
std::string e4m3_refusal(const std::function<void(paged_e4m3&)>& spoil) {
  paged_e4m3 p = good_paged_e4m3();
  spoil(p);
  return message_of<invalid_argument>([&] {
    const auto asked = attention_kernels::operands_of(p);
    attention_kernels::require_memory(asked, nullptr, 0);
  });
}

TEST(attention_arguments, of_a_cache_of_e4m3_steps_are_sixteen_values_and_factors_lie_as_floats_do) {
  const std::string nothing = "nothing was thrown";
  EXPECT_EQ(e4m3_refusal([](paged_e4m3&) {}), nothing);
  EXPECT_EQ(e4m3_refusal([](paged_e4m3& p) { p.k_descale = p.v_descale = nullptr; }), nothing);
  EXPECT_TRUE(says(e4m3_refusal([](paged_e4m3& p) { p.head_dim = 24; }), "head_dim is 24",
                   "with a cache of e4m3 it must be a multiple of 16"));
  EXPECT_TRUE(says(e4m3_refusal([](paged_e4m3& p) { p.page_stride = 16 * 1024 + 8; }), "page_stride is 16392",
                   "a multiple of 16"));
  EXPECT_EQ(e4m3_refusal([](paged_e4m3& p) { p.page_stride = 16 * 1024 + 16; }), nothing);
  EXPECT_TRUE(says(e4m3_refusal([](paged_e4m3& p) { p.k_descale = misaligned(p.k_descale); }),
                   "k_descale is 0x", "multiple of 4 bytes"));
  EXPECT_TRUE(says(e4m3_refusal([](paged_e4m3& p) { p.v_descale = misaligned(p.v_descale); }),
                   "v_descale is 0x", "multiple of 4 bytes"));
}
TEST(attention_arguments, factors_of_a_cache_that_is_not_e4m3_are_refused_by_name) {
  EXPECT_TRUE(
      says(paged_refusal([](paged& p) { p.k_descale = some_values<float>(); }), "k_descale is given"));
  EXPECT_TRUE(
      says(paged_refusal([](paged& p) { p.v_descale = some_values<float>(); }), "v_descale is given"));
}
TEST(attention_arguments, gpus_have_kernels_for_caches_of_e4m3_of_wide_heads_and_any_number_of_rows) {
  const auto why_not = [](const std::function<void(paged_e4m3&)>& change) {
    paged_e4m3 p = good_paged_e4m3();
    change(p);
    return supports(device_kind::cuda, p).why_not;
  };
  EXPECT_EQ(why_not([](paged_e4m3&) {}), "");
  EXPECT_EQ(why_not([](paged_e4m3& p) { p.head_dim = 256, p.q_len = 1 << 20; }), "");
  EXPECT_TRUE(says(why_not([](paged_e4m3& p) { p.head_dim = 128; }), "paged_attention: head_dim is 128",
                   "kernels for GPUs are of 256 and 512"));
  EXPECT_TRUE(says(why_not([](paged_e4m3& p) { p.page_size = 8; }), "page_size is 8"));
  EXPECT_TRUE(says(why_not([](paged_e4m3& p) {
                     p.batch = 1 << 20, p.heads = p.kv_heads = 4096, p.head_dim = 256;
                     p.cu_seqlens_q = p.seqlens, p.q_len = 1 << 28, p.total_q = 1, p.max_pages = 120;
                   }),
                   "batch 1048576, kv_heads 4096, q_len 268435456", "the longest sequence"));
  paged_e4m3 p = good_paged_e4m3();
  p.head_dim = 128;
  EXPECT_TRUE(supports(device_kind::cpu, p));
}

}  // namespace
}  // namespace baton
