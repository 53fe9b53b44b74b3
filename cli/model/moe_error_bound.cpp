// How far an implementation of the MoE layer may be from exact arithmetic.
//
// One token x and one of its experts, with matrices G (gate), U (up), D (down), f(v) = silu(v):
//   g = G x,  v = U x,  h = f(g) . v,  y = D h;   out = sum over k of w_k y_k.
// ~ marks what the implementation computes. Units of rounding: b = 2^-8 (bf16 keeps 8 bits), s for one step of a
// sum; t covers what underflows.
//
//   s = 2^-24 on the CPU: IEEE additions, in any order. Tensor cores align the products of a step of 16 and the
//   accumulator to the largest and drop what is below its 24th bit: at most 17 * 2^-23 of the sum of
//   magnitudes a step, less than 16 * 2^-22. Hence s = 2^-22 there. A sum of n products is then off by
//   at most gamma(n) = n s / (1 - n s) times the sum of their magnitudes (Higham, Accuracy and Stability,
//   3.1). n + 8 instead of n leaves room for the scales of fp8 blocks and for the rounding of results. Of e4m3 tensor cores add
//   32 products at a time to what they have and keep 13 bits below the largest of these 33: four times in a block of 128,
//   whose sum is then off by at most 4 * 33 * 2^-13 of its magnitudes, F below; F = 0 where they do not multiply so.
//
// 0. Weights. Those that are multiplied by may be rounded to FP8 from the ones given: with the scale c of a block of 128x128
//    |W~ - W| <= dW = max(2^-4 |W|, 2^-10 c) + 2^-20 |W|, as step 1 has it; none saturates, as c is the largest over 448.
// 1. Dispatch. bf16 is exact: d = 0. Else x_i / c is rounded, c the scale of its block: to e4m3, which keeps 4 bits, or e2m1,
//    which keeps 2: |x~_i - x_i| <= d_i = max(2^-4 |x_i|, 2^-10 c, |x_i| - 448 c) + 2^-20 |x_i|, or max(2^-2 |x_i|, 2^-2 c,
//    |x_i| - 6 c) + 2^-20 |x_i|. The second term of the max is half the spacing below the smallest normal number, the third is
//    what saturates, the last covers the fp32 roundings of scale, reciprocal and product (each 2^-24).
//    For products in bf16 what did not come so is rounded to it: d grows by b (|x| + d) + t.
//    Products in FP8 round rows that did not come so: with u = |x| + d, d grows by max(2^-4 u, 2^-10 c) + 2^-20 u, where c, the
//    largest u of the block (1e-4 at least) over 448, is no less than the block's own scale.
// 2. |g~ - g| <= dg = |G| d + e |G| (|x| + d) + (1 + e) dG (|x| + d), e = gamma(n + 8) + 1.01 F, n = hidden; dv likewise with U.
//    In FP8 each block of 128 adds a rounding for its scales and one for its sum to those of its products: fewer than n + 8.
// 3. f'(v) lies within [-0.0999, 1.0999], so |f(g~) - f(g)| <= 1.1 dg. Evaluating f(z) rounds by r(z) = (8 + 2 |z|)
//    2^-22 relatively: two roundings, and exp with a relative error of a few 2^-23 times 1 + |z| whether it goes
//    through exp2 or not. |z| <= |g| + dg. With f = |f(g)|:
//    |f~ - f| <= df = 1.1 dg + r(|g| + dg) (f + 1.1 dg) + t.
// 4. The product: p = f dv + |v| df + df dv, and |h~ - h| <= dh = p + q (|h| + p) + t, where q = b + 2^-23, as the result goes
//    to bf16; or q = 2^-23, and products in FP8 round h as they do rows in step 1.
// 5. |(D h)~ - y| <= dy = |D| dh + e |D| (|h| + dh) + (1 + e) dD (|h| + dh), e = gamma(m + 8) + 1.01 F, m = intermediate;
//    rounding the row to bf16 gives |y~ - y| <= r = dy + b (|y| + dy) + t.
// 6. out: sum over k of |w_k| r_k + gamma(top_k + 8) |w_k| (|y_k| + r_k) + t.
// 7. Layout per_rank: the same over the k of each rank gives a partial sum p and its e. One of another rank than the token's
//    is rounded to bf16, and then off by e' = e + b (|p| + e) + t, or in FP8 as rows are in step 1; the token's own stays fp32,
//    e' = e. out: sum over ranks of e' + gamma(ranks + 8) (|p| + e').
#include "cli/model/moe_error_bound.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/format_error.hpp"
#include "base/math.hpp"
#include "baton/error.hpp"
#include "cli/model/expert_in_double.hpp"

namespace baton::model {
namespace {

constexpr double bf16_unit = 0x1p-8;
constexpr double underflow = 0x1p-100;
constexpr double scale_per_value = (1 + 0x1p-22) / 448;  // of FP8, with what fp32 makes of it

double gamma(int n, double unit) {
  const double product = (n + 8) * unit;
  return product / (1 - product);
}

/// sum of |a_i| * weight_i; a is bf16 or double.
template <class Value>
BATON_READS_WHOLE_ARRAYS double magnitude_dot(const Value* a, const double* weight, std::size_t n) {
  look_at(a, n);
  look_at(weight, n);
  double sums[8] = {};
  for (std::size_t i = 0; i < n; ++i) {
    sums[i % 8] += std::fabs(widened(a[i])) * weight[i];
  }
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

/// The other side of a product.
struct operand {
  explicit operand(std::size_t n) : error(n), size(n) {}
  std::vector<double> error;  // how far it may be off, with what the sum over it adds
  std::vector<double> size;   // how large it may be, with the same

  /// From |x_i| and d_i, for sums of n products with that unit.
  void set(std::size_t i, double x, double d, double sum_error) {
    size[i] = (1 + sum_error) * (x + d);
    error[i] = d + sum_error * (x + d);
  }
};

/// Rows of weights as they were given, and how far those that are multiplied by may be from them: step 0.
class bounded_rows {
 public:
  bounded_rows(const expert_matrices& experts, expert_part part, weight_rounding rounding)
      : rows_{experts, part},
        count_{static_cast<std::size_t>(part == expert_part::down ? experts.hidden : experts.intermediate)},
        rounding_{rounding} {
    if (rounding == weight_rounding::to_block_fp8) find_scales(experts.num_experts);
  }

  /// |W| error + dW size of one row.
  double error(std::int32_t id, std::size_t row, const operand& x) {
    return rows_.with(id, row, [&](const auto* weights) {
      const double of_sums = magnitude_dot(weights, x.error.data(), x.error.size());
      if (rounding_ == weight_rounding::none) return of_sums;
      return of_sums + fp8_error(weights, scales_of(static_cast<std::size_t>(id), row), x.size);
    });
  }

 private:
  std::size_t blocks() const { return ceil_div<std::size_t>(rows_.columns(), weight_block); }
  double* scales_of(std::size_t id, std::size_t row) {
    return scales_.data() +
           (id * ceil_div<std::size_t>(count_, weight_block) + row / weight_block) * blocks();
  }

  void find_scales(int num_experts) {
    scales_.assign(
        static_cast<std::size_t>(num_experts) * ceil_div<std::size_t>(count_, weight_block) * blocks(),
        0x1p-126);
    for (std::int32_t id = 0; id < num_experts; ++id)
      for (std::size_t row = 0; row < count_; ++row)
        rows_.with(id, row, [&](const auto* weights) {
          double* const scales = scales_of(static_cast<std::size_t>(id), row);
          for (std::size_t i = 0; i < rows_.columns(); ++i)
            scales[i / weight_block] =
                std::max(scales[i / weight_block], std::fabs(widened(weights[i])) * scale_per_value);
        });
  }

  template <class Value>
  static double fp8_error(const Value* weights, const double* scales, const std::vector<double>& size) {
    double sum = 0;
    for (std::size_t i = 0; i < size.size(); ++i)
      sum +=
          format_error(token_format::blockwise_fp8, widened(weights[i]), scales[i / weight_block]) * size[i];
    return sum;
  }

  matrix_rows rows_;
  std::size_t count_;  // of rows of a matrix
  weight_rounding rounding_;
  std::vector<double> scales_;
};

/// Step 1 of the derivation: d for the values of one token.
std::vector<double> dispatch_error(const bfloat16* x, std::size_t hidden, token_format format) {
  std::vector<double> d(hidden, 0.0);
  const auto block = static_cast<std::size_t>(facts_of(format).block);
  for (std::size_t first = 0; block > 0 && first < hidden; first += block) {
    const double scale = scale_of(format, x + first);
    for (std::size_t i = first; i < first + block; ++i)
      d[i] = format_error(format, static_cast<double>(static_cast<float>(x[i])), scale);
  }
  return d;
}

/// What rounding to blockwise_fp8 adds to errors d of values of magnitudes x.
void add_fp8_rounding(const std::vector<double>& x, std::vector<double>& d) {
  constexpr auto block = static_cast<std::size_t>(facts_of(token_format::blockwise_fp8).block);
  for (std::size_t first = 0; first < x.size(); first += block) {
    const std::size_t last = std::min(x.size(), first + block);
    double most = 1e-4;
    for (std::size_t i = first; i < last; ++i) most = std::max(most, x[i] + d[i]);
    for (std::size_t i = first; i < last; ++i)
      d[i] += format_error(token_format::blockwise_fp8, x[i] + d[i], most * scale_per_value);
  }
}

/// Errors of an expert's row, steps 2 to 5.
class row_error {
 public:
  row_error(const expert_matrices& experts, const moe_rounding& rounding)
      : rounding_{rounding},
        gate_{experts, expert_part::gate, rounding.weights},
        up_{experts, expert_part::up, rounding.weights},
        down_{experts, expert_part::down, rounding.weights},
        input_(static_cast<std::size_t>(experts.hidden)),
        inner_(static_cast<std::size_t>(experts.intermediate)),
        row_(static_cast<std::size_t>(experts.hidden)) {}

  /// r of step 5, from what the expert computed exactly; valid until the next call.
  const std::vector<double>& run(std::int32_t id, const bfloat16* x, const expert_in_double& exact,
                                 const std::vector<double>& y) {
    weigh_input(x);
    weigh_inner(id, exact);
    for (std::size_t i = 0; i < row_.size(); ++i) {
      const double dy = down_.error(id, i, inner_);
      row_[i] = dy + bf16_unit * (std::fabs(y[i]) + dy) + underflow;
    }
    return row_;
  }

 private:
  /// Step 1, and what each |G_ji| is multiplied by in step 2.
  void weigh_input(const bfloat16* x) {
    std::vector<double> magnitudes(row_.size());
    for (std::size_t i = 0; i < row_.size(); ++i)
      magnitudes[i] = std::fabs(static_cast<double>(static_cast<float>(x[i])));
    std::vector<double> d = dispatch_error(x, row_.size(), rounding_.dispatch);
    if (rounding_.fp8_products && rounding_.dispatch != token_format::blockwise_fp8)
      add_fp8_rounding(magnitudes, d);
    if (!rounding_.fp8_products && rounding_.dispatch != token_format::bf16)
      for (std::size_t i = 0; i < d.size(); ++i) d[i] += bf16_unit * (magnitudes[i] + d[i]) + underflow;
    const double sum_error = error_of_sum(row_.size());
    for (std::size_t i = 0; i < row_.size(); ++i) input_.set(i, magnitudes[i], d[i], sum_error);
  }

  /// Step 4, and what each |D_ij| is multiplied by in step 5.
  void weigh_inner(std::int32_t id, const expert_in_double& exact) {
    const std::size_t n = inner_.error.size();
    const double product_unit = (rounding_.fp8_products ? 0.0 : bf16_unit) + 0x1p-23;
    std::vector<double> h(n), dh(n);
    for (std::size_t j = 0; j < n; ++j) {
      const double p = product_error(id, j, exact);
      h[j] = std::fabs(exact.inner()[j]);
      dh[j] = p + product_unit * (h[j] + p) + underflow;
    }
    if (rounding_.fp8_products) add_fp8_rounding(h, dh);
    const double sum_error = error_of_sum(n);
    for (std::size_t j = 0; j < n; ++j) inner_.set(j, h[j], dh[j], sum_error);
  }

  /// p of step 4
  double product_error(std::int32_t id, std::size_t j, const expert_in_double& exact) {
    const double dg = 1.1 * gate_.error(id, j, input_);
    const double dv = up_.error(id, j, input_);
    const double f = std::fabs(silu(exact.gate()[j]));
    const double df = dg + (8 + 2 * (std::fabs(exact.gate()[j]) + dg)) * 0x1p-22 * (f + dg) + underflow;
    return f * dv + std::fabs(exact.up()[j]) * df + df * dv;
  }

  /// e of steps 2 and 5: of a sum of n products, as a part of their magnitudes.
  double error_of_sum(std::size_t n) const {
    constexpr double fp8_on_tensor_cores = 1.01 * 4 * 33 * 0x1p-13;
    return gamma(static_cast<int>(n), rounding_.tensor_cores ? 0x1p-22 : 0x1p-24) +
           (rounding_.tensor_cores && rounding_.fp8_products ? fp8_on_tensor_cores : 0.0);
  }

  const moe_rounding& rounding_;
  bounded_rows gate_, up_, down_;
  operand input_, inner_;
  std::vector<double> row_;
};

/// The weighted sum of one token's rows and how far it may be off: steps 6 and 7.
class token_sum {
 public:
  token_sum(const moe_rounding& rounding, std::size_t hidden, std::size_t top_k)
      : rounding_{rounding}, over_choices_{gamma(static_cast<int>(top_k), 0x1p-24)} {
    const auto& owners = rounding.rank_of_expert;
    const int ranks = owners.empty() ? 1 : 1 + *std::max_element(owners.begin(), owners.end());
    of_ranks_.assign(static_cast<std::size_t>(ranks),
                     {std::vector<double>(hidden), std::vector<double>(hidden)});
    over_ranks_ = owners.empty() ? 0 : gamma(ranks, 0x1p-24);
  }

  void add(std::int32_t id, double weight, const std::vector<double>& y, const std::vector<double>& r) {
    const auto& owners = rounding_.rank_of_expert;
    partial& sum =
        of_ranks_[owners.empty() ? 0 : static_cast<std::size_t>(owners[static_cast<std::size_t>(id)])];
    for (std::size_t i = 0; i < y.size(); ++i) {
      sum.exact[i] += weight * y[i];
      sum.error[i] += std::fabs(weight) * (r[i] + over_choices_ * (std::fabs(y[i]) + r[i]));
    }
  }

  /// Writes the token's values and begins anew.
  void take(std::size_t token, bounded_moe& result) {
    for (std::size_t rank = 0; rank < of_ranks_.size(); ++rank) {
      const bool travels =
          !rounding_.rank_of_token.empty() && rounding_.rank_of_token[token] != static_cast<int>(rank);
      partial& sum = of_ranks_[rank];
      if (travels) add_rounding(sum);
      const std::size_t first = token * sum.exact.size();
      for (std::size_t i = 0; i < sum.exact.size(); ++i) {
        const double p = std::fabs(sum.exact[i]), e = sum.error[i];
        result.exact[first + i] += sum.exact[i];
        result.bound[first + i] += e + over_ranks_ * (p + e);
        sum.exact[i] = sum.error[i] = 0;
      }
    }
  }

 private:
  struct partial {
    std::vector<double> exact, error;
  };
  /// What the way to the token's rank adds.
  void add_rounding(partial& sum) const {
    std::vector<double> magnitudes(sum.exact.size());
    for (std::size_t i = 0; i < magnitudes.size(); ++i) magnitudes[i] = std::fabs(sum.exact[i]);
    if (rounding_.combine == token_format::blockwise_fp8) return add_fp8_rounding(magnitudes, sum.error);
    for (std::size_t i = 0; i < magnitudes.size(); ++i)
      sum.error[i] += bf16_unit * (magnitudes[i] + sum.error[i]) + underflow;
  }

  const moe_rounding& rounding_;
  double over_choices_, over_ranks_;
  std::vector<partial> of_ranks_;
};

void require_ranks(const expert_matrices& experts, const routed_tokens& tokens,
                   const moe_rounding& rounding) {
  if (rounding.rank_of_expert.empty() && rounding.rank_of_token.empty()) return;
  if (rounding.rank_of_expert.size() == static_cast<std::size_t>(experts.num_experts) &&
      rounding.rank_of_token.size() == static_cast<std::size_t>(tokens.tokens))
    return;
  throw invalid_argument{fmt::format("rounding: ranks of {} experts and {} tokens, expected {} and {}",
                                     rounding.rank_of_expert.size(), rounding.rank_of_token.size(),
                                     experts.num_experts, tokens.tokens)};
}

}  // namespace

bounded_moe moe_error_bound(const expert_matrices& experts, const routed_tokens& tokens,
                            const moe_rounding& rounding) {
  require_routing(experts, tokens);
  require_ranks(experts, tokens, rounding);
  const auto hidden = static_cast<std::size_t>(experts.hidden);
  const std::size_t values = static_cast<std::size_t>(tokens.tokens) * hidden;
  const std::size_t top_k =
      tokens.tokens > 0 ? tokens.topk_idx.size() / static_cast<std::size_t>(tokens.tokens) : 0;
  bounded_moe result{std::vector<double>(values), std::vector<double>(values, underflow)};
  expert_in_double expert{experts};
  row_error error{experts, rounding};
  token_sum sum{rounding, hidden, top_k};
  std::size_t current = 0;
  for_each_choice(tokens, [&](std::size_t token, std::int32_t id, double weight) {
    if (token != current) sum.take(std::exchange(current, token), result);
    const bfloat16* x = tokens.hidden.data() + token * hidden;
    const auto& y = expert.run(id, x);
    sum.add(id, weight, y, error.run(id, x, expert, y));
  });
  if (tokens.tokens > 0) sum.take(current, result);
  return result;
}

worst_value compare(const bounded_moe& expected, const std::vector<float>& found, int hidden) {
  if (found.size() != expected.exact.size()) {
    throw invalid_argument{
        fmt::format("found: expected {} values, found {}", expected.exact.size(), found.size())};
  }
  worst_value worst;
  for (std::size_t i = 0; i < found.size(); ++i) {
    double ratio = std::fabs(static_cast<double>(found[i]) - expected.exact[i]) / expected.bound[i];
    if (std::isnan(ratio)) ratio = std::numeric_limits<double>::infinity();
    if (ratio < worst.ratio) continue;
    const auto width = static_cast<std::size_t>(hidden);
    worst = {ratio,
             static_cast<int>(i / width),
             static_cast<int>(i % width),
             static_cast<double>(found[i]),
             expected.exact[i],
             expected.bound[i]};
  }
  return worst;
}

}  // namespace baton::model
