// The host side of the expert MLP: configurations that fit, and arguments refused by name, on both devices.
#include "kernels/expert_mlp/arguments.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "baton/error.hpp"
#include "kernels/expert_mlp/scratch.hpp"
#include "tests/cpu/says.hpp"

namespace baton::expert_mlp_kernels {
namespace {

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
  refused([](call& c) { c.weights.num_sms = -1; }, "weights.num_sms is -1");
  refused([](call& c) { c.weights.hidden = 0; }, "hidden is 0");
  refused([](call& c) { c.rows.num_local_experts = 3; }, "rows has 3");
  refused([](call& c) { c.rows.hidden = 384; }, "weights.hidden is 256, rows.hidden is 384");
  refused([](call& c) { c.rows.hidden = 0; }, "rows.hidden is 0");
  refused([](call& c) { c.weights.intermediate = 12; },
          "intermediate is 12; it must be a positive multiple of 8");
  refused([](call& c) { c.weights.hidden = 200; }, "hidden is 200; with fp8 rows");
  refused([](call& c) { c.weights.num_local_experts = c.rows.num_local_experts = 1025; }, "1025");
  refused([](call& c) { c.rows.max_rows = -1; }, "max_rows is -1");
  refused([](call& c) { c.weights.up = nullptr; }, "weights.up is null");
  refused([](call& c) { c.rows.scales = nullptr; }, "rows.scales is null");
  refused([](call& c) { c.weights.gated_by = gating{2}; }, "weights.gated_by is 2, which is no gating");
  const auto odd = []<class T>(const T* at) {
    return reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(at) + 1);
  };
  refused([&](call& c) { c.weights.gate_bias = odd(c.out); }, "weights.gate_bias is");
  refused([&](call& c) { c.weights.up_bias = odd(c.out); }, "weights.up_bias is");
  refused([&](call& c) { c.weights.down_bias = odd(c.out); }, "weights.down_bias is");
  refused([&](call& c) { c.rows.row_weights = odd(static_cast<const float*>(c.rows.scales)); },
          "rows.row_weights is");
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

TEST(expert_mlp_arguments, rows_of_every_format_pass_on_both_devices) {
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8, token_format::mxfp8,
                                    token_format::mxfp4, token_format::nvfp4}) {
    call c;
    c.rows.format = format;
    EXPECT_NO_THROW(c.check(device_kind::cpu));
    EXPECT_NO_THROW(c.check(device_kind::cuda));
  }
}

void in_fp8(call& c) {
  c.weights.format = weight_format::block_fp8;
  c.weights.gate_scales = c.weights.up_scales = c.weights.down_scales =
      static_cast<const float*>(c.rows.scales);
}

TEST(expert_mlp_arguments, weights_in_fp8_need_scales) {
  call good;
  in_fp8(good);
  EXPECT_NO_THROW(good.check(device_kind::cpu));
  EXPECT_NO_THROW(good.check(device_kind::cuda));
  good.weights.gate = reinterpret_cast<const std::byte*>(good.weights.gate) + 1;
  EXPECT_NO_THROW(good.check(device_kind::cpu)) << "bytes have no alignment";
  for (const device_kind device : {device_kind::cuda, device_kind::cpu}) {
    const auto refused = [&](const std::function<void(call&)>& damage, const std::string& text) {
      expect_refused(
          device,
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
}

TEST(expert_mlp_arguments, scratch_is_what_lies_between_the_steps_and_rows_that_came_in_another_type) {
  expert_weights weights{.hidden = 256, .intermediate = 64};
  received_tokens rows;
  rows.max_rows = 300;
  rows.hidden = 256;
  const auto bytes = [&](token_format format, weight_format of_weights) {
    rows.format = format;
    weights.format = of_weights;
    EXPECT_EQ(expert_mlp_scratch_bytes(weights, rows, device_kind::cpu), 0u);
    return expert_mlp_scratch_bytes(weights, rows, device_kind::cuda);
  };
  const std::size_t inner = 300 * 64 * 2, inner_fp8 = 300 * 64 + 1280;  // 300 scales are 1,200 bytes
  EXPECT_EQ(bytes(token_format::bf16, weight_format::bf16), inner);
  EXPECT_EQ(bytes(token_format::blockwise_fp8, weight_format::bf16), inner + 300 * 256 * 2);
  EXPECT_EQ(bytes(token_format::blockwise_fp8, weight_format::block_fp8), inner_fp8);
  EXPECT_EQ(bytes(token_format::bf16, weight_format::block_fp8), inner_fp8 + 300 * 256 + 2560);
}

TEST(expert_mlp_arguments, scratch_of_fewer_than_no_rows_is_refused) {
  const auto message = [&](int max_rows, int hidden, int intermediate, device_kind device) {
    received_tokens rows;
    rows.max_rows = max_rows;
    rows.hidden = hidden;
    return test::message_of<invalid_argument>(
        [&] { expert_mlp_scratch_bytes({.intermediate = intermediate}, rows, device); });
  };
  for (const device_kind device : {device_kind::cuda, device_kind::cpu}) {
    EXPECT_TRUE(test::says(message(-1, 64, 64, device), "rows.max_rows is -1"));
    EXPECT_TRUE(test::says(message(3, -64, 64, device), "rows.hidden is -64"));
    EXPECT_TRUE(test::says(message(3, 64, -64, device), "intermediate is -64"));
  }
}

TEST(expert_mlp_arguments, what_only_one_device_asks_for_is_refused_there) {
  using enum device_kind;
  const auto odd_fp8 = [](call& c) {
    in_fp8(c);
    c.weights.intermediate = 72;
  };
  expect_refused(cuda, odd_fp8, "intermediate is 72; it must be a positive multiple of 16");
  call c;
  odd_fp8(c);
  EXPECT_NO_THROW(c.check(cpu));
  expect_refused(
      cuda, [](call& of) { of.scratch = static_cast<std::byte*>(of.scratch) + 16; }, "scratch is");
  expect_refused(
      cuda, [](call& of) { of.weights.gate = of.out + 1; }, "weights.gate is");
  expect_refused(
      cuda, [](call& of) { of.weights.down_bias = of.out + 1; }, "weights.down_bias is");
  call without;
  without.scratch = nullptr;
  EXPECT_NO_THROW(without.check(cpu)) << "it needs none";
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
