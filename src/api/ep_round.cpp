#include "api/ep_round.hpp"

#include <fmt/format.h>

#include <limits>

#include "api/ep_arguments.hpp"
#include "baton/error.hpp"

namespace baton {
namespace {

constexpr const char* names[] = {"dispatch_async", "dispatch_wait", "combine_async", "combine_wait"};

}  // namespace

ep_round::ep_round(const world& w, const ep_config& config, int slot)
    : ranks_{w}, config_{config}, slot_{slot}, calls_{make_layout(w, config, slot)} {}

std::string ep_round::due() const {
  const char* const name = names[static_cast<int>(next_.load())];
  return config_.num_slots > 1 ? fmt::format("{} of slot {}", name, slot_) : name;
}

std::string ep_round::why_no_expert(std::int32_t id) const {
  using limits = std::numeric_limits<std::int32_t>;  // what ids of 64 bits beyond them are noted as
  if (id >= 0 && id < num_logical_)
    return fmt::format(
        "logical expert {}, of which replicas name none of the {} experts of this communicator: a count is "
        "outside [0, max_replicas], or a physical expert outside [0, {})",
        id, config_.num_experts, config_.num_experts);
  return fmt::format("{}{}, outside [-1, {})", id,
                     id == limits::max()   ? " or more"
                     : id == limits::min() ? " or less"
                                           : "",
                     num_logical_ > 0 ? num_logical_ : config_.num_experts);
}

void ep_round::require(step wanted, const char* called) const {
  if (wanted != next_)
    throw invalid_argument{
        fmt::format("{} called where {} is due: a round is dispatch_async, dispatch_wait, "
                    "combine_async, combine_wait, in this order",
                    called, due())};
}

void ep_round::begin(const dispatch_input& in, const char* called) {
  require(step::dispatch_async, called);
  require_input({ranks_, config_, calls_->num_sms()}, in);
  ++rounds_called_;
  num_tokens_ = in.num_tokens;
  num_logical_ = in.replicas.replica_counts != nullptr ? in.replicas.num_logical : 0;
  weights_given_ = in.topk_weights != nullptr;
  tensor_scale_ = config_.format == token_format::nvfp4 ? in.input_scales : nullptr;
}

void ep_round::check_input(const combine_input& in) const {
  require_aligned("expert_output", in.expert_output, 16);
  if (in.expert_output == tokens_once_)
    throw invalid_argument{
        "expert_output: the received tokens themselves, which with rows by_token do not lie by expert; give "
        "[max_rows, hidden] bf16, the output for row r at r"};
  if (in.shared_output != nullptr && num_tokens_ > 0) require_aligned("shared_output", in.shared_output, 16);
  require_sms(in.num_sms, calls_->num_sms());
  if (in.topk_weights == nullptr) return;
  if (!config_.weights_at_combine)
    throw invalid_argument{
        config_.layout == ep_layout::per_rank
            ? "topk_weights: given to combine, but weights_at_combine is false: give them to dispatch or "
              "dispatch_async, or create the communicator with weights_at_combine"
            : "topk_weights: given to combine, but with layout per_expert they are combine_wait's, or "
              "dispatch's"};
  require_aligned("topk_weights", in.topk_weights, 4);
}

/// The round's tokens are known.
received_tokens ep_round::dispatched(received_tokens received) {
  received.tensor_scale = tensor_scale_;
  tokens_once_ = received.token_rows != nullptr ? received.tokens : nullptr;
  done(step::dispatch_wait);
  return received;
}

void ep_round::dispatch_async(const dispatch_input& in, stream_ref stream) {
  begin(in, "dispatch_async");
  calls_->dispatch_async(in, stream);
  done(step::dispatch_async);
}

received_tokens ep_round::dispatch_wait(stream_ref stream) {
  require(step::dispatch_wait, "dispatch_wait");
  return dispatched(calls_->dispatch_wait(stream));
}

received_tokens ep_round::dispatch(const dispatch_input& in, stream_ref stream) {
  begin(in, "dispatch");
  return dispatched(calls_->dispatch(in, stream));
}

void ep_round::combine_async(const combine_input& in, stream_ref stream) {
  require(step::combine_async, "combine_async");
  check_input(in);
  calls_->combine_async(in, stream);
  shared_output_ = in.shared_output;
  done(step::combine_async);
}

void ep_round::combine_wait(const float* topk_weights, const void* out, const ep_layout_calls::output& output,
                            stream_ref stream) {
  require(step::combine_wait, "combine_wait");
  if (num_tokens_ > 0) require_aligned("out", out, 16);
  if (topk_weights != nullptr) require_aligned("topk_weights", topk_weights, 4);
  if (topk_weights != nullptr && weights_given_)
    throw invalid_argument{"topk_weights: given to dispatch and to combine_wait; give them once"};
  if (topk_weights != nullptr && config_.layout == ep_layout::per_rank)
    throw invalid_argument{
        fmt::format("topk_weights: with layout per_rank the experts' ranks apply them: give them to {}",
                    config_.weights_at_combine ? "combine_async, as weights_at_combine says"
                                               : "dispatch or dispatch_async")};
  if (shared_output_ != nullptr && std::holds_alternative<ep::store_unreduced>(output))
    throw invalid_argument{
        "combine_wait_unreduced: combine_async was given a shared_output, which is added to a token's sum, "
        "and "
        "here there is none; call combine_wait, or add it to the sum of the rows"};
  calls_->combine_wait({topk_weights, shared_output_}, output, stream);
  done(step::combine_wait);
}

void ep_round::combine(const combine_input& in, const void* out, const ep_layout_calls::output& output,
                       stream_ref stream) {
  require(step::combine_async, "combine");
  check_input(in);
  if (num_tokens_ > 0) require_aligned("out", out, 16);
  calls_->combine(in, output, stream);
  done(step::combine_wait);
}

}  // namespace baton
