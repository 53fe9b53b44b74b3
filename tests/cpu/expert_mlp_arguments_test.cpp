// The host side of the expert MLP: configurations that fit, and arguments refused by name, on both devices.
#include "kernels/expert_mlp/arguments.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "baton/error.hpp"
#include "kernels/expert_mlp/config.hpp"
#include "tests/cpu/says.hpp"

namespace baton::expert_mlp_kernels {
namespace {

static_assert(why_not(gate_up_bf16) == nullptr);
static_assert(why_not(gate_up_fp8) == nullptr);
static_assert(why_not(down_bf16) == nullptr);
static_assert(why_not(config{.stages = 1}) != nullptr);
static_assert(why_not(config{.stages = 4, .blocks_per_sm = 2}) != nullptr, "132 KiB twice");
static_assert(why_not(config{.what = step::down, .input = token_format::blockwise_fp8}) != nullptr);

struct call {
  alignas(256) std::byte memory[256];
  expert_weights weights{};
  received_tokens rows{};
  bfloat16* out = reinterpret_cast<bfloat16*>(memory);
  void* scratch = memory;

  call() {
    weights = {out, out, out, 2, 256, 64};
    rows.tokens = memory;
    rows.scales = reinterpret_cast<const float*>(memory);
    rows.row_offsets = rows.row_counts = reinterpret_cast<const std::int32_t*>(memory);
    rows.num_local_experts = 2;
    rows.max_rows = 8;
    rows.format = token_format::blockwise_fp8;
    rows.scales_layout = scale_layout::column_major;
    rows.hidden = 256;
  }
  void check(device_kind device) const { require(device, weights, rows, out, scratch); }
};

TEST(expert_mlp_arguments, what_the_interface_allows_passes) {
  const call good;
  EXPECT_NO_THROW(good.check(device_kind::cuda));
  EXPECT_NO_THROW(good.check(device_kind::cpu));
  call empty;
  empty.rows.max_rows = 0;
  empty.out = nullptr;
  empty.scratch = nullptr;
  EXPECT_NO_THROW(empty.check(device_kind::cuda)) << "nothing is touched where there are no rows";
}

void expect_refused(device_kind device, const std::function<void(call&)>& damage, const std::string& text) {
  call c;
  damage(c);
  EXPECT_TRUE(test::says(test::message_of<invalid_argument>([&] { c.check(device); }), text));
}

TEST(expert_mlp_arguments, what_it_does_not_is_refused_by_name_and_value) {
  const auto refused = [](const std::function<void(call&)>& damage, const std::string& text) {
    expect_refused(device_kind::cuda, damage, text);
    expect_refused(device_kind::cpu, damage, text);
  };
  refused([](call& c) { c.weights.hidden = 0; }, "hidden is 0");
  refused([](call& c) { c.rows.num_local_experts = 3; }, "rows has 3");
  refused([](call& c) { c.rows.hidden = 384; }, "weights.hidden is 256, rows.hidden is 384");
  refused([](call& c) { c.rows.hidden = 0; }, "rows.hidden is 0");
  refused([](call& c) { c.weights.num_local_experts = c.rows.num_local_experts = 1025; }, "1025");
  refused([](call& c) { c.rows.max_rows = -1; }, "max_rows is -1");
  refused([](call& c) { c.weights.up = nullptr; }, "weights.up is null");
  refused([](call& c) { c.rows.scales = nullptr; }, "rows.scales is null");
  refused([](call& c) { c.rows.row_counts = nullptr; }, "rows.row_counts is null");
  refused([](call& c) { c.out += 1; }, "out is");
  refused([](call& c) { c.rows.format = token_format{9}; }, "rows.format is 9, which is no token_format");
}

TEST(expert_mlp_arguments, of_tokens_that_lie_once_are_refused_by_name_and_value) {
  const auto by_token = [](call& c) {
    c.rows.token_rows = c.rows.row_counts;
    c.rows.max_token_rows = 3;
    c.rows.row_bytes = 272;
    c.rows.scales_layout = scale_layout::row_major;
  };
  for (const device_kind device : {device_kind::cuda, device_kind::cpu}) {
    call good;
    by_token(good);
    EXPECT_NO_THROW(good.check(device));
    const auto refused = [&](const std::function<void(call&)>& damage, const std::string& text) {
      expect_refused(
          device,
          [&](call& c) {
            by_token(c);
            damage(c);
          },
          text);
    };
    refused([](call& c) { c.rows.max_token_rows = 0; }, "rows.max_token_rows is 0");
    refused([](call& c) { c.rows.row_bytes = 280; }, "rows.row_bytes is 280");
    refused([](call& c) { c.rows.row_bytes = 240; }, "holds the 256 bytes");
    refused([](call& c) { c.rows.scales_layout = scale_layout::column_major; },
            "rows.scales_layout is column_major; with token_rows it must be row_major");
  }
}

TEST(expert_mlp_arguments, rows_that_only_the_cpu_decodes_are_refused_by_name_on_cuda) {
  call c;
  c.rows.format = token_format::nvfp4;
  EXPECT_NO_THROW(c.check(device_kind::cpu));
  expect_refused(
      device_kind::cuda, [](call& on_cuda) { on_cuda.rows.format = token_format::nvfp4; },
      "rows.format is nvfp4; on CUDA it must be bf16 or fp8");
}

TEST(expert_mlp_arguments, weights_in_fp8_need_scales_and_the_cpu) {
  const auto in_fp8 = [](call& c) {
    c.weights.format = weight_format::block_fp8;
    c.weights.gate_scales = c.weights.up_scales = c.weights.down_scales =
        static_cast<const float*>(c.rows.scales);
  };
  call good;
  in_fp8(good);
  EXPECT_NO_THROW(good.check(device_kind::cpu));
  good.weights.gate = reinterpret_cast<const std::byte*>(good.weights.gate) + 1;
  EXPECT_NO_THROW(good.check(device_kind::cpu)) << "bytes have no alignment";
  expect_refused(device_kind::cuda, in_fp8, "weights.format is fp8; on CUDA it must be bf16");
  const auto refused = [&](const std::function<void(call&)>& damage, const std::string& text) {
    expect_refused(
        device_kind::cpu,
        [&](call& c) {
          in_fp8(c);
          damage(c);
        },
        text);
  };
  refused([](call& c) { c.weights.gate_scales = nullptr; }, "weights.gate_scales is null");
  refused([](call& c) { c.weights.up_scales = nullptr; }, "weights.up_scales is null");
  refused([](call& c) { c.weights.down_scales = nullptr; }, "weights.down_scales is null");
  refused([](call& c) { c.weights.format = weight_format{7}; },
          "weights.format is 7, which is no weight_format");
}

TEST(expert_mlp_arguments, scratch_of_fewer_than_no_rows_is_refused) {
  const expert_weights weights{.intermediate = 64}, bad{.intermediate = -64};
  EXPECT_EQ(expert_mlp_scratch_bytes(weights, 3, device_kind::cuda), 3u * 64 * 2);
  for (const device_kind device : {device_kind::cuda, device_kind::cpu}) {
    const auto message = [&](const expert_weights& w, int rows) {
      return test::message_of<invalid_argument>([&] { expert_mlp_scratch_bytes(w, rows, device); });
    };
    EXPECT_TRUE(test::says(message(weights, -1), "max_rows is -1"));
    EXPECT_TRUE(test::says(message(bad, 3), "intermediate is -64"));
  }
}

TEST(expert_mlp_arguments, what_only_one_device_asks_for_is_refused_there) {
  using enum device_kind;
  expect_refused(
      cuda, [](call& c) { c.weights.hidden = 200; }, "hidden is 200; on CUDA");
  expect_refused(
      cuda, [](call& c) { c.weights.intermediate = 96; }, "intermediate is 96; on CUDA");
  expect_refused(
      cuda, [](call& c) { c.scratch = static_cast<std::byte*>(c.scratch) + 16; }, "scratch is");
  expect_refused(
      cuda, [](call& c) { c.weights.gate = c.out + 1; }, "weights.gate is");
  expect_refused(
      cpu, [](call& c) { c.weights.intermediate = 12; }, "intermediate is 12; on the CPU");
  expect_refused(
      cpu, [](call& c) { c.weights.hidden = 200; }, "hidden is 200; with fp8 rows");
  call c;
  c.scratch = nullptr;
  EXPECT_NO_THROW(c.check(cpu)) << "it needs none";
}

TEST(expert_mlp_arguments, are_checked_before_anything_is_queued) {
  const auto worlds = world::local(1, device_kind::cpu);
  call c;
  c.weights.up = nullptr;
  EXPECT_THROW(expert_mlp(worlds[0], c.weights, c.rows, c.out, nullptr), invalid_argument);
  EXPECT_NO_THROW(worlds[0].synchronize());
}

}  // namespace
}  // namespace baton::expert_mlp_kernels
