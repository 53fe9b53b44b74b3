// The CUDA expert MLP against double precision, within a bound that follows from its roundings.
#include <algorithm>
#include <climits>
#include <cmath>
#include <cstring>
#include <random>

#include "baton/baton.hpp"
#include "kernels/expert_mlp/launch.hpp"
#include "tests/gpu/gpu_case.hpp"

namespace baton {
namespace {

using test::both_sides;

class expert_mlp_gpu : public test::gpu_case {};

constexpr std::uint16_t poison = 0x7fa5;  // a NaN that no rounding produces

struct shape {
  int hidden = 256;
  int intermediate = 128;
  std::vector<int> counts;
  token_format format = token_format::bf16;
  bool by_token = false;  // rows lie as ep_rows::by_token leaves them, the last one first
};

/// Rows of each expert with gaps between experts and at both ends, random weights, and everything on the device.
struct problem {
  shape s;
  std::vector<std::int32_t> offsets;
  int num_experts, max_rows;
  both_sides<std::int32_t> row_offsets, row_counts;
  both_sides<bfloat16> gate, up, down, tokens;
  both_sides<float8_e4m3> quantised;
  both_sides<float> scales;
  both_sides<std::uint8_t> stored;
  both_sides<std::int32_t> token_rows;
  both_sides<bfloat16> out;
  both_sides<std::uint16_t> scratch;
  std::vector<world> worlds = world::local(1, device_kind::cuda);

  explicit problem(shape wanted, unsigned seed = 1)
      : s{std::move(wanted)},
        num_experts{static_cast<int>(s.counts.size())},
        max_rows{place_rows()},
        row_offsets{offsets},
        row_counts{std::vector<std::int32_t>(s.counts.begin(), s.counts.end())},
        gate{at(num_experts, s.intermediate * s.hidden)},
        up{gate.size()},
        down{gate.size()},
        tokens{at(max_rows, s.hidden)},
        quantised{tokens.size()},
        scales{at(max_rows, s.hidden / 128)},
        stored{at(max_rows, row_bytes())},
        token_rows{at(max_rows, 1)},
        out{tokens.size()},
        scratch{expert_mlp_scratch_bytes(weights(), rows(), device_kind::cuda) / 2} {
    std::mt19937 random{seed};
    std::normal_distribution<float> normal;
    const auto fill = [&](both_sides<bfloat16>& values, float deviation) {
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = bfloat16{normal(random) * deviation};
    };
    fill(gate, 1.0f / std::sqrt(static_cast<float>(s.hidden)));
    fill(up, 1.0f / std::sqrt(static_cast<float>(s.hidden)));
    fill(down, 1.0f / std::sqrt(static_cast<float>(s.intermediate)));
    fill(tokens, 1.0f);
    for (std::size_t i = 0; i < quantised.size(); ++i) quantised[i] = float8_e4m3{normal(random) * 120.0f};
    for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = (0.5f + std::abs(normal(random))) / 120.0f;
    store_by_token();
  }
  /// Values, scales and something behind them.
  int row_bytes() const {
    return s.format == token_format::bf16 ? 2 * s.hidden + 16
                                          : s.hidden + (s.hidden / 32 + 15) / 16 * 16 + 16;
  }
  void store_by_token() {
    const bool fp8 = s.format == token_format::blockwise_fp8;
    for (std::size_t i = 0; i < stored.size(); ++i) stored[i] = 0xff;
    for (int row = 0; row < max_rows; ++row) {
      token_rows[static_cast<std::size_t>(row)] = max_rows - 1 - row;
      std::uint8_t* to = stored.data() + at(max_rows - 1 - row, row_bytes());
      const std::size_t first = at(row, s.hidden);
      std::memcpy(to, fp8 ? static_cast<const void*>(&quantised[first]) : &tokens[first],
                  at(fp8 ? 1 : 2, s.hidden));
      for (int b = 0; fp8 && b < s.hidden / 128; ++b)
        std::memcpy(to + s.hidden + 4 * b, &scales[at(b, max_rows) + static_cast<std::size_t>(row)], 4);
    }
  }
  static std::size_t at(int rows, int columns) {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
  }
  int place_rows() {
    int next = 4;
    for (const int count : s.counts) {
      offsets.push_back(next);
      next = (next + count + 3) / 4 * 4 + 4;
    }
    offsets.push_back(next);
    return next + 3;
  }

  expert_weights weights() const {
    return {gate.data(), up.data(), down.data(), num_experts, s.hidden, s.intermediate};
  }
  received_tokens rows() const {
    received_tokens r;
    const bool fp8 = s.format == token_format::blockwise_fp8;
    r.tokens = fp8 ? static_cast<const void*>(quantised.data()) : tokens.data();
    r.scales = fp8 ? scales.data() : nullptr;
    r.scales_layout = scale_layout::column_major;
    r.row_offsets = row_offsets.data();
    r.row_counts = row_counts.data();
    r.num_local_experts = num_experts;
    r.max_rows = max_rows;
    r.format = s.format;
    r.hidden = s.hidden;
    if (s.by_token) {
      r.tokens = stored.data();
      r.scales = fp8 ? stored.data() + s.hidden : nullptr;
      r.scales_layout = scale_layout::row_major;
      r.token_rows = token_rows.data();
      r.max_token_rows = max_rows;
      r.row_bytes = row_bytes();
    }
    return r;
  }
  void run(stream_ref stream = {}) const {
    expert_mlp_kernels::run(worlds[0], weights(), rows(), out.data(), scratch.data(), stream);
  }
  std::vector<std::uint16_t> run_on_poison() const {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = bfloat16::from_bits(poison);
    for (std::size_t i = 0; i < scratch.size(); ++i) scratch[i] = poison;
    run();
    test::finish();
    std::vector<std::uint16_t> bits;
    for (std::size_t i = 0; i < out.size(); ++i) bits.push_back(out[i].bits);
    return bits;
  }
  double token(int row, int k) const {
    if (s.format == token_format::bf16) return static_cast<float>(tokens[at(row, s.hidden) + k]);
    return static_cast<float>(
        bfloat16{static_cast<float>(quantised[at(row, s.hidden) + k]) * scales[at(k / 128, max_rows) + row]});
  }
};

/// A value and how far the kernel's may be from it.
struct bounded {
  double value = 0, error = 0;
};

/// A sum of n products on the tensor cores: each addition to the fp32 sum truncates at most one unit of 2^-23 of
/// the largest partial sum, itself at most the sum of magnitudes.
bounded dot(int n, const auto& product) {
  bounded sum;
  double magnitude = 0;
  for (int k = 0; k < n; ++k) {
    sum.value += product(k);
    magnitude += std::abs(product(k));
  }
  sum.error = (n + 1) * 0x1p-23 * magnitude;
  return sum;
}

/// h = silu(g) * u. |silu'| <= 1.1; exp, sum, quotient and product together stay below 8 units of 2^-24; then
/// one rounding to bf16, whose unit is 2^-8.
bounded gated(const bounded& g, const bounded& u) {
  const double silu = g.value / (1 + std::exp(-g.value));
  bounded h{silu * u.value};
  h.error = 1.1 * g.error * (std::abs(u.value) + u.error) + std::abs(silu) * u.error +
            8 * 0x1p-24 * std::abs(h.value);
  h.error += 0x1p-8 * (std::abs(h.value) + h.error);
  return h;
}

std::vector<bounded> expected_row(const problem& p, int expert, int row) {
  const int hidden = p.s.hidden, intermediate = p.s.intermediate;
  const std::size_t base = problem::at(expert, hidden * intermediate);
  std::vector<bounded> middle, out;
  for (int i = 0; i < intermediate; ++i) {
    const std::size_t from = base + problem::at(i, hidden);
    const auto through = [&](const both_sides<bfloat16>& w) {
      return dot(hidden, [&](int k) { return p.token(row, k) * static_cast<float>(w[from + k]); });
    };
    middle.push_back(gated(through(p.gate), through(p.up)));
  }
  for (int h = 0; h < hidden; ++h) {
    const std::size_t from = base + problem::at(h, intermediate);
    bounded sum =
        dot(intermediate, [&](int i) { return middle[i].value * static_cast<float>(p.down[from + i]); });
    for (int i = 0; i < intermediate; ++i)
      sum.error += 1.001 * middle[i].error * std::abs(static_cast<float>(p.down[from + i]));
    sum.error += 0x1p-8 * (std::abs(sum.value) + sum.error);
    out.push_back(sum);
  }
  return out;
}

struct verdict {
  double worst = 0;  // largest error over its bound
  std::string where = "nothing compared";
  int overwritten = 0;
};

/// Compares `checked_rows` rows spread over each expert (its first and last among them) and all gaps.
verdict judge(const problem& p, const std::vector<std::uint16_t>& got, int checked_rows = 12) {
  verdict v;
  std::vector<bool> owned(static_cast<std::size_t>(p.max_rows), false);
  for (int e = 0; e < p.num_experts; ++e) {
    const int count = p.row_counts[e], step = std::max(1, count / checked_rows);
    for (int r = 0; r < count; ++r) owned[static_cast<std::size_t>(p.offsets[e] + r)] = true;
    for (int r = 0; r < count; r = r + step < count || r == count - 1 ? r + step : count - 1) {
      const int row = p.offsets[e] + r;
      const std::vector<bounded> want = expected_row(p, e, row);
      for (int h = 0; h < p.s.hidden; ++h) {
        const double value = static_cast<float>(bfloat16::from_bits(got[problem::at(row, p.s.hidden) + h]));
        const double error = std::abs(value - want[h].value) / want[h].error;
        if (error <= v.worst) continue;  // a NaN goes on
        v.worst = std::isnan(error) ? INFINITY : error;
        v.where = "expert " + std::to_string(e) + ", row " + std::to_string(r) + ", column " +
                  std::to_string(h) + ": " + std::to_string(value) + ", expected " +
                  std::to_string(want[h].value) + " +- " + std::to_string(want[h].error);
      }
    }
  }
  for (int row = 0; row < p.max_rows; ++row)
    for (int h = 0; h < p.s.hidden; ++h)
      if (!owned[static_cast<std::size_t>(row)] && got[problem::at(row, p.s.hidden) + h] != poison)
        ++v.overwritten;
  return v;
}

void expect_right(shape s) {
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
    if (s.hidden % facts_of(format).multiple != 0) continue;
    s.format = format;
    const problem p{s};
    const std::vector<std::uint16_t> got = p.run_on_poison();
    const verdict v = judge(p, got);
    EXPECT_LE(v.worst, 1.0) << v.where;
    EXPECT_EQ(v.overwritten, 0) << "values outside every expert's rows";
    EXPECT_EQ(got, p.run_on_poison()) << "a second run differs";
  }
}

TEST_F(expert_mlp_gpu, row_counts_around_a_tile_are_right_and_gaps_stay_untouched) {
  expect_right({.counts = {0, 1, 127, 128, 129}});
}

TEST_F(expert_mlp_gpu, skewed_experts_are_right) {
  expect_right({.counts = {700, 0, 3, 0, 64, 1}});
}

TEST_F(expert_mlp_gpu, no_rows_at_all_write_nothing) {
  expect_right({.counts = {0, 0, 0}});
}

TEST_F(expert_mlp_gpu, the_smallest_shape_is_right) {
  expect_right({.hidden = 128, .intermediate = 64, .counts = {5}});
}

TEST_F(expert_mlp_gpu, shapes_that_are_no_powers_of_two_are_right) {
  expect_right({.hidden = 384, .intermediate = 192, .counts = {33, 130}});
}

TEST_F(expert_mlp_gpu, shapes_that_are_any_multiples_of_eight_are_right) {
  expect_right({.hidden = 200, .intermediate = 88, .counts = {33, 130}});
  expect_right({.hidden = 8, .intermediate = 8, .counts = {3, 0, 70}});
  expect_right({.hidden = 1144, .intermediate = 136, .counts = {65}});
}

TEST_F(expert_mlp_gpu, more_experts_than_a_launch_takes_are_right) {
  std::vector<int> counts(600);
  counts[3] = counts[511] = 2;
  counts[512] = 5;
  counts[599] = 1;
  expect_right({.hidden = 128, .intermediate = 64, .counts = counts});
}

TEST_F(expert_mlp_gpu, a_long_sum_is_right) {
  expect_right({.hidden = 7168, .intermediate = 64, .counts = {3, 0, 2}});
}

TEST_F(expert_mlp_gpu, more_experts_than_a_warp_are_right) {
  std::vector<int> counts(70);
  for (int e = 0; e < 70; ++e) counts[static_cast<std::size_t>(e)] = e % 7 == 0 ? 0 : e % 4 + 1;
  expect_right({.hidden = 128, .intermediate = 64, .counts = counts});
}

TEST_F(expert_mlp_gpu, tokens_that_lie_once_give_the_same_bits_wherever_they_lie) {
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
    const problem by_expert{
        {.hidden = 384, .intermediate = 192, .counts = {0, 1, 130, 33}, .format = format}};
    const problem by_token{
        {.hidden = 384, .intermediate = 192, .counts = {0, 1, 130, 33}, .format = format, .by_token = true}};
    EXPECT_EQ(by_token.run_on_poison(), by_expert.run_on_poison()) << name(format);
  }
}

TEST_F(expert_mlp_gpu, a_damaged_place_of_a_token_leads_to_no_other_memory) {
  for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
    const problem p{{.counts = {3}, .format = format, .by_token = true}};
    const auto first = static_cast<std::size_t>(p.offsets[0]);
    for (const std::int32_t damaged : {-1, p.max_rows, INT32_MIN, INT32_MAX}) {
      p.token_rows[first] = damaged < 0 ? 0 : p.max_rows - 1;
      const std::vector<std::uint16_t> nearest = p.run_on_poison();
      p.token_rows[first] = damaged;
      EXPECT_EQ(p.run_on_poison(), nearest) << damaged;
    }
  }
}

TEST_F(expert_mlp_gpu, the_bound_tells_gate_from_up) {
  problem p{{.counts = {20}}};
  expert_weights swapped = p.weights();
  std::swap(swapped.gate, swapped.up);
  p.run_on_poison();
  expert_mlp_kernels::run(p.worlds[0], swapped, p.rows(), p.out.data(), p.scratch.data(), {});
  test::finish();
  std::vector<std::uint16_t> got;
  for (std::size_t i = 0; i < p.out.size(); ++i) got.push_back(p.out[i].bits);
  EXPECT_GT(judge(p, got).worst, 1.0);
}

TEST_F(expert_mlp_gpu, a_captured_graph_reads_the_row_counts_of_each_replay) {
  problem p{{.counts = {140, 60}}};
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  test::must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
  test::must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning a capture");
  p.run({stream});
  test::must(cudaStreamEndCapture(stream, &graph), "ending a capture");
  test::must(cudaGraphInstantiate(&replay, graph, 0), "instantiating a graph");
  for (const std::vector<int>& counts : {std::vector<int>{140, 60}, {7, 0}, {0, 60}}) {
    for (std::size_t e = 0; e < 2; ++e) p.row_counts[e] = counts[e];
    for (std::size_t i = 0; i < p.out.size(); ++i) p.out[i] = bfloat16::from_bits(poison);
    test::must(cudaGraphLaunch(replay, stream), "replaying");
    test::must(cudaStreamSynchronize(stream), "running the graph");
    std::vector<std::uint16_t> got;
    for (std::size_t i = 0; i < p.out.size(); ++i) got.push_back(p.out[i].bits);
    const verdict v = judge(p, got);
    EXPECT_LE(v.worst, 1.0) << v.where;
    EXPECT_EQ(v.overwritten, 0);
  }
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

TEST_F(expert_mlp_gpu, arguments_out_of_limits_are_refused_by_name) {
  const problem p{{.counts = {4}}};
  const auto refused = [&](const expert_weights& w, const received_tokens& r, const char* name) {
    try {
      expert_mlp_kernels::run(p.worlds[0], w, r, p.out.data(), p.scratch.data(), {});
      ADD_FAILURE() << name << " was accepted";
    } catch (const invalid_argument& e) {
      EXPECT_NE(std::string{e.what()}.find(name), std::string::npos) << e.what();
    }
  };
  expert_weights w = p.weights();
  w.hidden = 100;
  refused(w, p.rows(), "hidden is 100");
  w = p.weights();
  w.intermediate = 92;
  refused(w, p.rows(), "intermediate is 92");
  w = p.weights();
  w.up = nullptr;
  refused(w, p.rows(), "weights.up is null");
  received_tokens r = p.rows();
  r.hidden += 128;
  refused(p.weights(), r, "rows.hidden");
  r = p.rows();
  r.num_local_experts = 3;
  refused(p.weights(), r, "3");
}

}  // namespace
}  // namespace baton
