#include "api/ep_arguments.hpp"

#include <fmt/format.h>

#include "api/ep_layout.hpp"
#include "baton/error.hpp"
#include "kernels/ep/shape.hpp"
#include "runtime/on_cuda.hpp"
#include "runtime/world_state.hpp"

namespace baton {
namespace {

void require_reach(const world& w, const char* name, const void* at) {
  if (w.device() == device_kind::cpu || on_cuda::reaches(w.state(), at)) return;
  throw invalid_argument{
      fmt::format("{}: {} is host memory that the device of rank {} cannot write; give it pinned memory "
                  "(cudaHostAlloc, or a tensor with pin_memory)",
                  name, at, w.rank())};
}

void require_input_scales(const dispatch_input& in, token_format format) {
  require_aligned("input_scales", in.input_scales, 4);
  if (format != token_format::blockwise_fp8 && format != token_format::nvfp4)
    throw invalid_argument{fmt::format("input_scales: given, but token_format {} takes none", name(format))};
  if (format == token_format::blockwise_fp8 && source_of(in).is_given)
    throw invalid_argument{"input_scales: given, but the tokens are quantised and bring their own"};
}

void require_tokens(const ep_config& config, const dispatch_input& in) {
  if (in.num_tokens < 0 || in.num_tokens > config.num_max_tokens_per_rank)
    throw invalid_argument{
        fmt::format("num_tokens: {} is outside [0, {}]; raise num_max_tokens_per_rank or send in "
                    "several rounds",
                    in.num_tokens, config.num_max_tokens_per_rank)};
  const token_source from = source_of(in);
  const format_facts facts = facts_of(config.format);
  if (from.is_given && facts.scale_bytes == 0)
    throw invalid_argument{fmt::format(
        "tokens: quantised, but they travel as {}; give bf16, or configure the format they are in",
        name(config.format))};
  if (in.num_tokens == 0) return;
  require_aligned("tokens", from.values, 16);
  const int scales_of_load = config.format == token_format::nvfp4 ? 2 : 1;
  if (from.is_given)
    require_aligned("tokens.scales", from.scales,
                    static_cast<std::size_t>(facts.scale_bytes * scales_of_load));
  require_aligned("topk_idx", in.topk_idx.data, in.topk_idx.is_wide ? 8 : 4);
}

/// What the tables say, the kernels check.
void require_map(const ep_config& config, const expert_map& map) {
  if (map.logical_to_physical == nullptr && map.replica_counts == nullptr) return;
  require_aligned("replicas.logical_to_physical", map.logical_to_physical, 4);
  require_aligned("replicas.replica_counts", map.replica_counts, 4);
  if (map.num_logical < 1 || map.num_logical > ep::max_experts)
    throw invalid_argument{
        fmt::format("replicas.num_logical: {} is outside [1, {}]", map.num_logical, ep::max_experts)};
  if (map.max_replicas < 1 || map.max_replicas > config.num_experts)
    throw invalid_argument{
        fmt::format("replicas.max_replicas: {} is outside [1, {}], the experts of this communicator",
                    map.max_replicas, config.num_experts)};
}

}  // namespace

void require_aligned(const char* name, const void* pointer, std::size_t alignment) {
  if (pointer == nullptr) throw invalid_argument{fmt::format("{}: null", name)};
  if (reinterpret_cast<std::uintptr_t>(pointer) % alignment != 0)
    throw invalid_argument{fmt::format("{}: {} is not aligned to {} bytes", name, pointer, alignment)};
}

void require_slot(const ep_config& config, int slot) {
  if (slot < 0 || slot >= config.num_slots)
    throw invalid_argument{
        fmt::format("slot: {} is outside [0, {}); num_slots says how many a communicator is created with",
                    slot, config.num_slots)};
}

void require_sms(int num_sms, int most) {
  if (num_sms < 0 || num_sms > most)
    throw invalid_argument{
        fmt::format("num_sms: {} is outside [0, {}], what this communicator was created with; 0 means all",
                    num_sms, most)};
}

void require_input(const ep_bounds& to, const dispatch_input& in) {
  require_tokens(to.config, in);
  if (in.topk_weights != nullptr) require_aligned("topk_weights", in.topk_weights, 4);
  if (in.topk_weights != nullptr && to.config.weights_at_combine)
    throw invalid_argument{
        "topk_weights: given to dispatch, but weights_at_combine says that combine is given them"};
  if (in.input_scales != nullptr) require_input_scales(in, to.config.format);
  require_sms(in.num_sms, to.num_sms);
  if (in.host_counts != nullptr) {
    require_aligned("host_counts", in.host_counts, 4);
    require_reach(to.ranks, "host_counts", in.host_counts);
  }
  if (in.expert_load != nullptr) require_aligned("expert_load", in.expert_load, 8);
  require_map(to.config, in.replicas);
}

}  // namespace baton
