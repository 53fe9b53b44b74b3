#include "communicator.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <variant>

#include "baton/error.hpp"
#include "config.hpp"

namespace baton::python {
namespace {

constexpr int row_alignment = 16;  // in bytes, of where rows begin

bool is_fp4(token_format format) {
  return format == token_format::mxfp4 || format == token_format::nvfp4;
}

/// Tokens of a communicator whose format has scales, as (values, scales), and how many there are.
std::pair<quantised_tokens, std::int64_t> quantised_of(nb::handle given, const ep_config& config,
                                                       const world& rank, std::vector<kept_array>& used) {
  const auto pair = nb::cast<nb::tuple>(given);
  if (pair.size() != 2)
    throw invalid_argument{"tokens: a tuple of " + std::to_string(pair.size()) +
                           ", expected (values, scales)"};
  const bool is_half_a_byte = is_fp4(config.format);
  const int columns = is_half_a_byte ? config.hidden / 2 : config.hidden;
  const std::initializer_list<element> bytes = {element::uint8};
  const std::initializer_list<element> values_or_bytes = {element::e4m3, element::uint8};
  const array values = array_of(
      pair[0],
      {"tokens[0]", is_half_a_byte ? bytes : values_or_bytes, {-1, columns}, false, 0, row_alignment}, rank);
  const int blocks = facts_of(config.format).row_scales(config.hidden);
  const array scales =
      array_of(pair[1], {"tokens[1]", {scales_of(config.format)}, {values.shape[0], blocks}}, rank);
  used.insert(used.end(), {values.memory, scales.memory});
  return {{values.data, scales.data}, values.shape[0]};
}

/// Where the last row ends that came; of memory that the host reads.
int end_of(const received_tokens& rows) {
  int end = 0;
  for (int e = 0; e < rows.num_local_experts; ++e)
    if (rows.row_counts[e] > 0) end = std::max(end, rows.row_offsets[e] + rows.row_counts[e]);
  return end;
}

}  // namespace

turn::turn(std::atomic<bool>& taken) : taken_{taken} {
  if (taken_.exchange(true))
    throw invalid_argument{
        "ExpertParallel: two threads call the same communicator at the same time; give each rank one thread, "
        "or each thread a "
        "communicator of its own"};
}

round_arguments& communicator::round(int slot) {
  if (slot < 0 || static_cast<std::size_t>(slot) >= rounds_.size())
    throw invalid_argument{"slot: " + std::to_string(slot) + " is outside [0, " +
                           std::to_string(rounds_.size()) +
                           "); num_slots says how many a communicator is created with"};
  return rounds_[static_cast<std::size_t>(slot)];
}

void communicator::read_tokens(const dispatch_arguments& given, dispatch_input& in,
                               std::vector<kept_array>& used) const {
  const ep_config& config = moe_->config();
  const world& rank = rank_.get();
  std::int64_t num_tokens = 0;
  if (nb::isinstance<nb::tuple>(given.tokens)) {
    std::tie(in.tokens, num_tokens) = quantised_of(given.tokens, config, rank, used);
  } else {
    const array tokens = array_of(
        given.tokens, {"tokens", {element::bf16}, {-1, config.hidden}, false, 0, row_alignment}, rank);
    in.tokens = static_cast<const bfloat16*>(tokens.data);
    num_tokens = tokens.shape[0];
    used.push_back(tokens.memory);
  }
  if (num_tokens > config.num_max_tokens_per_rank)
    throw invalid_argument{"tokens: " + std::to_string(num_tokens) +
                           " rows, expected at most num_max_tokens_per_rank = " +
                           std::to_string(config.num_max_tokens_per_rank)};
  in.num_tokens = static_cast<int>(num_tokens);
}

dispatch_input communicator::input_of(const dispatch_arguments& given, std::vector<kept_array>& used) const {
  const ep_config& config = moe_->config();
  const world& rank = rank_.get();
  constexpr std::size_t most_used = 6;
  used.reserve(most_used);
  dispatch_input in{.num_sms = given.num_sms, .slot = given.slot};
  read_tokens(given, in, used);
  const array ids = array_of(
      given.topk_idx, {"topk_idx", {element::int32, element::int64}, {in.num_tokens, config.top_k}}, rank);
  in.topk_idx.data = ids.data;
  in.topk_idx.is_wide = ids.type == element::int64;
  const array weights = optional_array(
      given.topk_weights, {"topk_weights", {element::fp32}, {in.num_tokens, config.top_k}}, rank);
  in.topk_weights = static_cast<const float*>(weights.data);
  const int scales = config.format == token_format::nvfp4 ? 1 : config.hidden / 128;
  const array input_scales =
      optional_array(given.input_scales, {"input_scales", {element::fp32}, {scales}}, rank);
  in.input_scales = static_cast<const float*>(input_scales.data);
  const array load = optional_array(
      given.expert_load, {"expert_load", {element::int64}, {moe_->local_experts().count}, true}, rank);
  in.expert_load = static_cast<std::int64_t*>(load.data);
  for (const array* one : {&ids, &weights, &input_scales, &load})
    if (one->memory.is_valid()) used.push_back(one->memory);
  require_apart(used);
  if (in.topk_weights != nullptr && config.weights_at_combine)
    throw invalid_argument{
        "topk_weights: given to dispatch, but weights_at_combine says that combine is given them"};
  return in;
}

void communicator::begin_round(int slot, int num_tokens, std::vector<kept_array> used) {
  for (const kept_array& one : used) rank_.keep(one);
  round_arguments& its = round(slot);
  its.num_tokens = num_tokens;
  its.used = std::move(used);
}

void communicator::note_received(round_arguments& its, const received_tokens& rows, stream_ref stream) {
  its.max_rows = rows.max_rows;
  rank_.finish_on_cpu(stream);
  if (rank_.is_cpu()) its.rows_came = end_of(rows);
}

/// Kernels of a round's end read what its beginning was given, too.
void communicator::end_round(int slot, stream_ref stream) {
  const std::vector<kept_array> used = std::exchange(round(slot).used, {});
  for (const kept_array& one : used) rank_.keep(one);
  rank_.finish_on_cpu(stream);
}

void communicator::dispatch_async(const dispatch_arguments& given, std::uintptr_t stream) {
  const turn mine{taken_};
  const stream_ref on = rank_.stream_of(stream);
  round(given.slot);
  std::vector<kept_array> used;
  const dispatch_input in = input_of(given, used);
  {
    const nb::gil_scoped_release without_lock;
    moe_->dispatch_async(in, on);
  }
  begin_round(given.slot, in.num_tokens, std::move(used));
}

received_tokens communicator::dispatch_wait(int slot, std::uintptr_t stream) {
  const turn mine{taken_};
  const stream_ref on = rank_.stream_of(stream);
  round_arguments& its = round(slot);
  received_tokens rows;
  {
    const nb::gil_scoped_release without_lock;
    rows = moe_->dispatch_wait(on, slot);
  }
  note_received(its, rows, on);
  return rows;
}

received_tokens communicator::dispatch(const dispatch_arguments& given, std::uintptr_t stream) {
  const turn mine{taken_};
  const stream_ref on = rank_.stream_of(stream);
  round_arguments& its = round(given.slot);
  std::vector<kept_array> used;
  const dispatch_input in = input_of(given, used);
  received_tokens rows;
  {
    const nb::gil_scoped_release without_lock;
    rows = moe_->dispatch(in, on);
  }
  begin_round(given.slot, in.num_tokens, std::move(used));
  note_received(its, rows, on);
  return rows;
}

combine_input communicator::input_of(const combine_arguments& given, std::vector<kept_array>& used) {
  const round_arguments& its = round(given.slot);
  if (given.num_rows < -1)
    throw invalid_argument{"num_rows: " + std::to_string(given.num_rows) +
                           ", expected at least 0, or -1 for as many as there may be"};
  if (given.num_rows >= 0 && given.num_rows < its.rows_came)
    throw invalid_argument{"num_rows: " + std::to_string(given.num_rows) + ", expected at least " +
                           std::to_string(its.rows_came) + ", as many as came"};
  const world& rank = rank_.get();
  const std::int64_t hidden = moe_->config().hidden;
  const std::int64_t num_rows = given.num_rows < 0 ? its.max_rows : given.num_rows;
  const array outputs =
      array_of(given.expert_output,
               {"expert_output", {element::bf16}, {num_rows, hidden}, false, 0, row_alignment}, rank);
  const array shared = optional_array(
      given.shared_output,
      {"shared_output", {element::bf16}, {its.num_tokens, hidden}, false, 0, row_alignment}, rank);
  const array weights = optional_array(
      given.topk_weights, {"topk_weights", {element::fp32}, {its.num_tokens, moe_->config().top_k}}, rank);
  for (const array* one : {&outputs, &shared, &weights})
    if (one->memory.is_valid()) used.push_back(one->memory);
  if (weights.memory.is_valid() && !moe_->config().weights_at_combine)
    throw invalid_argument{
        "topk_weights: given to combine, but weights_at_combine is false: give them to dispatch or "
        "dispatch_async, or create the communicator with weights_at_combine"};
  alignas(16) static const bfloat16 no_rows[8]{};  // arrays of none have no address; nobody reads it
  return {.expert_output = num_rows == 0 ? no_rows : static_cast<const bfloat16*>(outputs.data),
          .num_sms = given.num_sms,
          .slot = given.slot,
          .shared_output = static_cast<const bfloat16*>(shared.data),
          .topk_weights = static_cast<const float*>(weights.data)};
}

/// `used`: by this call.
array communicator::out_of(nb::handle out, int slot, std::span<const kept_array> used) {
  const round_arguments& its = round(slot);
  array found = array_of(out,
                         {"out",
                          {element::fp32, element::bf16},
                          {its.num_tokens, moe_->config().hidden},
                          true,
                          0,
                          row_alignment},
                         rank_.get());
  require_apart(found.memory, used);
  require_apart(found.memory, its.used);
  return found;
}

void communicator::combine_async(const combine_arguments& given, std::uintptr_t stream) {
  const turn mine{taken_};
  const stream_ref on = rank_.stream_of(stream);
  std::vector<kept_array> used;
  const combine_input in = input_of(given, used);
  {
    const nb::gil_scoped_release without_lock;
    moe_->combine_async(in, on);
  }
  std::vector<kept_array>& of_round = round(given.slot).used;
  for (kept_array& one : used) {
    rank_.keep(one);
    of_round.push_back(std::move(one));
  }
}

void communicator::combine_wait(nb::handle topk_weights, nb::handle out, int slot, std::uintptr_t stream) {
  const turn mine{taken_};
  const stream_ref on = rank_.stream_of(stream);
  const int top_k = moe_->config().top_k;
  const array weights = optional_array(
      topk_weights, {"topk_weights", {element::fp32}, {round(slot).num_tokens, top_k}}, rank_.get());
  const array result = out_of(out, slot, {&weights.memory, 1});
  {
    const nb::gil_scoped_release without_lock;
    const auto* by = static_cast<const float*>(weights.data);
    if (result.type == element::fp32)
      moe_->combine_wait(by, static_cast<float*>(result.data), on, slot);
    else
      moe_->combine_wait(by, static_cast<bfloat16*>(result.data), on, slot);
  }
  rank_.keep(result.memory);
  rank_.keep(weights.memory);
  end_round(slot, on);
}

void communicator::combine(const combine_arguments& given, std::uintptr_t stream) {
  const turn mine{taken_};
  const stream_ref on = rank_.stream_of(stream);
  std::vector<kept_array> used;
  const combine_input in = input_of(given, used);
  const array result = out_of(given.out, given.slot, used);
  {
    const nb::gil_scoped_release without_lock;
    if (result.type == element::fp32)
      moe_->combine(in, static_cast<float*>(result.data), on);
    else
      moe_->combine(in, static_cast<bfloat16*>(result.data), on);
  }
  for (const kept_array& one : used) rank_.keep(one);
  rank_.keep(result.memory);
  end_round(given.slot, on);
}

void communicator::check_arguments(const dispatch_arguments& given) const {
  std::vector<kept_array> used;
  input_of(given, used);
}

void communicator::check_arguments(const combine_arguments& given) {
  std::vector<kept_array> used;
  input_of(given, used);
  if (given.out.is_valid() && !given.out.is_none()) out_of(given.out, given.slot, used);
}

void communicator::check() {
  const turn mine{taken_};
  rank_.get();
  const nb::gil_scoped_release without_lock;
  moe_->check();
}

void communicator::may_release() const {
  rank_.get();
  if (const int views = *live_views_; views > 0)
    throw invalid_argument{
        "release: " + std::to_string(views) +
        " baton.Received of this communicator, or arrays that are views of one, are alive, "
        "expected none: drop them first"};
}

void communicator::release() {
  const turn mine{taken_};
  moe_->release();
}

void communicator::reacquire() {
  const turn mine{taken_};
  moe_->reacquire();
}

void communicator::set_members(const ep_membership& members) {
  const turn mine{taken_};
  moe_->set_members(members);
}

void communicator::forget_rounds() {
  for (round_arguments& its : rounds_) its = {};
}

}  // namespace baton::python
