// Attention of few rows on a GPU, as users call it: against double precision, the same bits again, in graphs whose lengths
// change, and over scratch that holds what it must not.
#include <cstring>
#include <future>
#include <mutex>
#include <string>
#include <vector>

#include "baton/attention.hpp"
#include "baton/error.hpp"
#include "tests/gpu/gpu_case.hpp"
#include "tests/support/e4m3_cache.hpp"

namespace baton {
namespace {

using test::attention_shape;

class decode_attention_gpu : public test::gpu_case {
 protected:
  void SetUp() override {
    test::gpu_case::SetUp();
    if (!IsSkipped()) worlds_ = world::local(1, device_kind::cuda);
  }

  void TearDown() override {
    for (auto& each : tries_) each.get();
    test::gpu_case::TearDown();
  }

  /// Of both types and head dimensions, and of caches of e4m3, twice. What is right takes longer than the kernels: a test's tries
  /// are worked out at the same time, and take turns on the GPU.
  void try_decode(attention_shape s, int page_size = 16, kv_layout layout = kv_layout::nhd) {
    const auto begin = [&](auto try_it) { tries_.push_back(std::async(std::launch::async, try_it)); };
    for (const int dim : {256, 512}) {
      s.head_dim = dim;
      begin([=, this] { try_decode_as<bfloat16>(s, page_size, layout); });
      begin([=, this] { try_decode_as<float16>(s, page_size, layout); });
      begin([=, this] { try_e4m3_as<bfloat16>(s, page_size, layout); });
      begin([=, this] { try_e4m3_as<float16>(s, page_size, layout); });
    }
  }
  /// Of a cache of e4m3 alone.
  void try_e4m3(attention_shape s) {
    for (const int dim : {256, 512}) {
      s.head_dim = dim;
      tries_.push_back(
          std::async(std::launch::async, [=, this] { try_e4m3_as<bfloat16>(s, 16, kv_layout::nhd); }));
    }
  }
  const world& gpu() const { return worlds_[0]; }

 private:
  template <class Value>
  void try_decode_as(const attention_shape& s, int page_size, kv_layout layout) {
    const auto c = test::make_attention<Value>(s, 1);
    auto keys = test::pages_of(c, page_size, layout, 1);
    test::spoil_unused(keys);
    expect_right_twice(c, test::tensor_core_rounding<Value>(s.head_dim),
                       [&] { return test::paged_result(gpu(), c, keys); });
  }
  /// Keys and values of each head scaled by its own.
  template <class Value>
  void try_e4m3_as(const attention_shape& s, int page_size, kv_layout layout) {
    auto c = test::make_attention<Value>(s, 1);
    const test::cache_factors factors = test::factors_by_head(s.kv_heads);
    test::round_to_e4m3(c, factors);
    auto keys = test::pages_of(c, page_size, layout, 1);
    test::spoil_unused(keys);
    expect_right_twice(c, test::tensor_core_rounding<float16>(s.head_dim),
                       [&] { return test::e4m3_result(gpu(), c, keys, factors); });
  }
  template <class Value, class Run>
  void expect_right_twice(const test::attention_case<Value>& c, const test::attention_rounding& rounding,
                          Run run) {
    std::unique_lock turn{on_gpu_};
    const test::attention_result<Value> found = run(), again = run();
    turn.unlock();
    EXPECT_EQ(test::errors_of(c, found, rounding).first_wrong, "");
    EXPECT_TRUE(found.out == again.out) << test::text(c.shape) << ": other bits the second time";
    EXPECT_EQ(std::memcmp(found.lse.data(), again.lse.data(), found.lse.size() * sizeof(float)), 0);
  }

  std::vector<world> worlds_;
  std::mutex on_gpu_;
  std::vector<std::future<void>> tries_;
};

TEST_F(decode_attention_gpu, lengths_around_borders_of_pieces_tiles_units_and_cuts_are_right) {
  for (const int keys : {1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1023, 1024, 1025, 3000})
    try_decode({.q_lens = {1}, .k_lens = {keys}, .heads = 8, .kv_heads = 2});
}

TEST_F(decode_attention_gpu, up_to_eight_rows_and_sixteen_heads_of_a_group_are_right) {
  for (const int group : {1, 3, 8, 16})
    for (const int rows : {1, 2, 5, 8})
      try_decode({.q_lens = {rows, rows},
                  .k_lens = {1500, rows - 1},
                  .heads = 2 * group,
                  .kv_heads = 2,
                  .options = {.causal = true}});
}

TEST_F(decode_attention_gpu, batches_of_all_sizes_share_out_their_blocks) {
  for (const int batch : {2, 7, 20, 64, 150}) {
    attention_shape s{.heads = 4, .kv_heads = 2};
    for (int b = 0; b < batch; ++b) s.q_lens.push_back(1), s.k_lens.push_back(b * 7919 % 2500);
    try_decode(s);
  }
}

TEST_F(decode_attention_gpu, pages_windows_caps_sinks_and_rows_of_none_are_right) {
  for (const int page_size : {16, 48, 64})
    for (const kv_layout layout : {kv_layout::nhd, kv_layout::hnd})
      try_decode({.q_lens = {3, 0, 1, 2},
                  .k_lens = {1700, 30, 0, 333},
                  .heads = 8,
                  .kv_heads = 2,
                  .options = {.causal = true, .window_left = 1200},
                  .sinks = true,
                  .tail = 2},
                 page_size, layout);
  try_decode(
      {.q_lens = {4}, .k_lens = {2000}, .heads = 8, .options = {.causal = true, .softcap = 5}, .spread = 4});
}

TEST_F(decode_attention_gpu, of_e4m3_any_number_of_rows_is_right) {
  for (const int rows : {20, 130, 700})
    try_e4m3(
        {.q_lens = {rows, 3}, .k_lens = {900, 40}, .heads = 8, .kv_heads = 2, .options = {.causal = true}});
}

/// A cache and what is asked of it, in memory that stays.
class decoded_batch {
 public:
  decoded_batch(const world& w, const attention_shape& s)
      : world_{w},
        c_{test::make_attention<bfloat16>(s, 3)},
        keys_{test::pages_of(c_, 16, kv_layout::nhd, 1)},
        q_{w, c_.q},
        k_{w, keys_.k},
        v_{w, keys_.v},
        out_{w, c_.q.size()},
        table_{w, keys_.page_table},
        seqlens_{w, keys_.seqlens},
        scratch_{w, attention_scratch_bytes(w.device(), problem())} {}

  paged_attention_problem<bfloat16> problem() {
    paged_attention_problem<bfloat16> p;
    p.q = q_.data(), p.out = out_.data(), p.k_cache = k_.data(), p.v_cache = v_.data();
    p.page_table = table_.data(), p.seqlens = seqlens_.data();
    p.batch = c_.shape.batch(), p.q_len = 1;
    p.heads = c_.shape.heads, p.kv_heads = c_.shape.kv_heads, p.head_dim = c_.shape.head_dim;
    p.num_pages = keys_.num_pages, p.page_size = keys_.page_size, p.max_pages = keys_.max_pages;
    return p;
  }
  void enqueue(stream_ref stream) { paged_attention(world_, problem(), scratch_.data(), stream); }
  void set_lengths(const std::vector<std::int32_t>& lengths, stream_ref stream) {
    copy_async(world_, seqlens_.data(), lengths.data(), lengths.size() * sizeof(std::int32_t), stream);
  }
  std::vector<bfloat16> out() const { return out_.to_host(); }
  device_buffer<std::byte>& scratch() { return scratch_; }

 private:
  world world_;
  test::attention_case<bfloat16> c_;
  test::paged_keys<bfloat16> keys_;
  device_buffer<bfloat16> q_, k_, v_, out_;
  device_buffer<std::int32_t> table_, seqlens_;
  device_buffer<std::byte> scratch_;
};

TEST_F(decode_attention_gpu, a_graph_sees_the_lengths_of_its_replay) {
  const attention_shape s{
      .q_lens = {1, 1, 1}, .k_lens = {3000, 1200, 500}, .heads = 8, .kv_heads = 2, .head_dim = 512};
  decoded_batch graphed{gpu(), s}, plain{gpu(), s};
  cudaStream_t stream = nullptr;
  test::must(cudaStreamCreate(&stream), "making a stream");
  test::must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing");
  graphed.enqueue({stream});
  cudaGraph_t graph = nullptr;
  test::must(cudaStreamEndCapture(stream, &graph), "capturing");
  cudaGraphExec_t replay = nullptr;
  test::must(cudaGraphInstantiate(&replay, graph, 0), "instantiating");
  for (const auto& lengths : std::vector<std::vector<std::int32_t>>{
           {3000, 1200, 500}, {1, 0, 17}, {2999, 64, 499}, {0, 0, 0}, {10, 1200, 500}}) {
    graphed.set_lengths(lengths, {stream}), plain.set_lengths(lengths, {stream});
    for (int i = 0; i < 5; ++i) test::must(cudaGraphLaunch(replay, stream), "replaying");
    plain.enqueue({stream});
    test::must(cudaStreamSynchronize(stream), "running");
    EXPECT_TRUE(graphed.out() == plain.out()) << lengths[0];
  }
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

TEST_F(decode_attention_gpu, scratch_is_left_as_it_was_and_what_no_call_has_left_there_is_stuck) {
  decoded_batch batch{gpu(), {.q_lens = {1}, .k_lens = {6000}, .heads = 8, .kv_heads = 2, .head_dim = 512}};
  ASSERT_GT(batch.scratch().size(), 4096u) << "the item is cut";
  batch.enqueue({});
  const std::vector<bfloat16> right = batch.out();
  batch.enqueue({});
  EXPECT_TRUE(batch.out() == right);
  batch.scratch().fill_async(0x01);
  try {
    batch.enqueue({});
    gpu().synchronize();
    FAIL() << "nobody noticed";
  } catch (const stuck& e) {
    EXPECT_EQ(e.where.site, "decode.parts_signed");
  }
  batch.scratch().fill_async(0);
  batch.enqueue({});
  gpu().synchronize();
  EXPECT_TRUE(batch.out() == right);
}

}  // namespace
}  // namespace baton
