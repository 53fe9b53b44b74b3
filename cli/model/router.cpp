#include "cli/model/router.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/dot.hpp"
#include "baton/error.hpp"

namespace baton::model {
namespace {

/// Turns logits into probabilities in place.
template <class Real>
void softmax(std::span<Real> values) {
  const Real largest = *std::max_element(values.begin(), values.end());
  Real sum = 0;
  for (Real& v : values) sum += v = std::exp(v - largest);
  for (Real& v : values) v /= sum;
}

/// Ids of the top_k largest probabilities, best first, ties to the lower id.
template <class Real>
void choose(std::span<const Real> probabilities, std::span<std::int32_t> chosen) {
  std::vector<std::int32_t> ids(probabilities.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto better = [&](std::int32_t a, std::int32_t b) {
    const Real pa = probabilities[static_cast<std::size_t>(a)],
               pb = probabilities[static_cast<std::size_t>(b)];
    return pa != pb ? pa > pb : a < b;
  };
  const auto middle = ids.begin() + static_cast<std::ptrdiff_t>(chosen.size());
  std::partial_sort(ids.begin(), middle, ids.end(), better);
  std::copy(ids.begin(), middle, chosen.begin());
}

template <class Real>
void weigh(std::span<const Real> probabilities, std::span<const std::int32_t> chosen, bool renormalise,
           std::span<Real> weights) {
  Real sum = 0;
  for (std::size_t k = 0; k < chosen.size(); ++k) {
    weights[k] = probabilities[static_cast<std::size_t>(chosen[k])];
    sum += weights[k];
  }
  if (!renormalise) return;
  for (Real& w : weights) w /= sum;
}

void require_tokens(const router_shape& shape, std::size_t values) {
  if (values % static_cast<std::size_t>(shape.hidden) == 0) return;
  throw invalid_argument{
      fmt::format("hidden: expected whole tokens of {} values, found {} values", shape.hidden, values)};
}

/// NaN compares with nothing, so a choice among NaNs would be arbitrary.
void require_finite(std::span<const float> logits, std::size_t token) {
  for (std::size_t e = 0; e < logits.size(); ++e) {
    if (std::isfinite(logits[e])) continue;
    throw invalid_argument{
        fmt::format("hidden: expected finite router logits, found {} for expert {} of token {}; weights of "
                    "the model are damaged, or values too large",
                    logits[e], e, token)};
  }
}

}  // namespace

router::router(router_shape shape, std::vector<float> weight) : shape_{shape}, weight_{std::move(weight)} {
  if (shape.top_k < 1 || shape.top_k > shape.num_experts) {
    throw invalid_argument{
        fmt::format("top_k: expected 1 to num_experts = {}, found {}", shape.num_experts, shape.top_k)};
  }
  const auto needed = static_cast<std::size_t>(shape.num_experts) * static_cast<std::size_t>(shape.hidden);
  if (shape.hidden < 1 || weight_.size() != needed) {
    throw invalid_argument{fmt::format("weight: expected num_experts * hidden = {} * {} values, found {}",
                                       shape.num_experts, shape.hidden, weight_.size())};
  }
}

routed_tokens router::route(std::vector<bfloat16> hidden) const {
  require_tokens(shape_, hidden.size());
  const auto width = static_cast<std::size_t>(shape_.hidden), top_k = static_cast<std::size_t>(shape_.top_k);
  const auto experts = static_cast<std::size_t>(shape_.num_experts);
  const std::size_t tokens = hidden.size() / width;
  routed_tokens routed{static_cast<int>(tokens), std::move(hidden), std::vector<std::int32_t>(tokens * top_k),
                       std::vector<float>(tokens * top_k)};
  std::vector<float> x(width), p(experts);
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t i = 0; i < width; ++i) x[i] = static_cast<float>(routed.hidden[t * width + i]);
    multiply_rows(weight_.data(), experts, width, x.data(), 1, p.data());
    require_finite(p, t);
    softmax<float>(p);
    const std::span chosen{routed.topk_idx.data() + t * top_k, top_k};
    choose<float>(p, chosen);
    weigh<float>(p, chosen, shape_.renormalise, {routed.topk_weights.data() + t * top_k, top_k});
  }
  return routed;
}

exact_routing route_in_double(const router& router, std::span<const bfloat16> hidden) {
  const router_shape& shape = router.shape();
  require_tokens(shape, hidden.size());
  const auto width = static_cast<std::size_t>(shape.hidden), top_k = static_cast<std::size_t>(shape.top_k);
  const auto experts = static_cast<std::size_t>(shape.num_experts);
  const std::size_t tokens = hidden.size() / width;
  exact_routing routed{std::vector<std::int32_t>(tokens * top_k), std::vector<double>(tokens * top_k),
                       std::vector<double>(tokens * experts)};
  for (std::size_t t = 0; t < tokens; ++t) {
    const std::span p{routed.probabilities.data() + t * experts, experts};
    for (std::size_t e = 0; e < experts; ++e) {
      p[e] = 0;
      for (std::size_t i = 0; i < width; ++i) {
        p[e] += double{router.weight()[e * width + i]} * static_cast<float>(hidden[t * width + i]);
      }
    }
    softmax<double>(p);
    const std::span chosen{routed.topk_idx.data() + t * top_k, top_k};
    choose<double>(p, chosen);
    weigh<double>(p, chosen, shape.renormalise, {routed.topk_weights.data() + t * top_k, top_k});
  }
  return routed;
}

}  // namespace baton::model
