#include "baton/expert_parallel.hpp"

#include <fmt/format.h>

#include <exception>

#include "api/agreement.hpp"
#include "baton/device_buffer.hpp"
#include "baton/error.hpp"
#include "bootstrap/group.hpp"
#include "kernels/ep/creation.hpp"
#include "kernels/ep/launch.hpp"
#include "runtime/window.hpp"
#include "runtime/world_state.hpp"

namespace baton {
namespace {

enum class step { dispatch_async, dispatch_wait, combine_async, combine_wait };
constexpr const char* names[] = {"dispatch_async", "dispatch_wait", "combine_async", "combine_wait"};

ep::launch_config launch_config_of(const world& w, const ep_config& c) {
  const bool cpu = w.device() == device_kind::cpu;
  const int sms = sms_of(w);
  if (c.num_sms > sms && !cpu)
    throw invalid_argument{fmt::format("num_sms: {} is more than the {} that rank {} may use on its device",
                                       c.num_sms, sms, w.rank())};
  return {c.format, c.arrival, c.num_sms > 0 ? c.num_sms : sms,
          c.num_threads > 0 ? c.num_threads
          : cpu             ? 64
                            : 1024};
}

void require_aligned(const char* name, const void* pointer, std::size_t alignment) {
  if (pointer == nullptr) throw invalid_argument{fmt::format("{}: null", name)};
  if (reinterpret_cast<std::uintptr_t>(pointer) % alignment != 0)
    throw invalid_argument{fmt::format("{}: {} is not aligned to {} bytes", name, pointer, alignment)};
}

/// What a communicator has, unless it was moved from.
template <class State>
State& present(const std::unique_ptr<State>& s) {
  if (s == nullptr)
    throw invalid_argument{"expert_parallel: this one was moved from; use the one it was moved to"};
  return *s;
}

}  // namespace

struct expert_parallel::state {
  world ranks;
  ep_config config;
  ep::launch_config launch;
  ep::endpoint end;
  device_buffer<std::byte> local;
  std::unique_ptr<symmetric_window> window;
  step next = step::dispatch_async;
  int num_tokens = 0;
  int times_lost;  // the world's, at creation
  const int exceptions = std::uncaught_exceptions();

  state(const world& w, const ep_config& c)
      : ranks{w},
        config{c},
        launch{launch_config_of(w, c)},
        end{.s = {c.num_experts, w.size(), w.rank(), c.top_k, c.hidden, c.num_max_tokens_per_rank, c.format},
            .windows = {},
            .warps = launch.blocks * (launch.threads / warp_lanes)},
        times_lost{w.state().times_lost} {}
  /// An exception that ends the scope ends the scopes of what the caller had passed too.
  ~state() {
    if (std::uncaught_exceptions() > exceptions) ranks.state().abandon_work();
  }

  /// Rounds are dispatch_async, dispatch_wait, combine_async, combine_wait: nothing else keeps buffers safe.
  /// After a time-out peers may still work on an old round in the same memory: only new memory is safe.
  void advance(step called) {
    if (ranks.state().times_lost != times_lost)
      throw invalid_argument{
          fmt::format("{} called after work of rank {} was lost: a wait gave up, or an exception ended it. "
                      "This communicator is of no further use. Destroy "
                      "it and create one anew, on every rank",
                      names[static_cast<int>(called)], end.s.rank)};
    if (called != next)
      throw invalid_argument{
          fmt::format("{} called where {} is due: a round is dispatch_async, dispatch_wait, "
                      "combine_async, combine_wait, in this order",
                      names[static_cast<int>(called)], names[static_cast<int>(next)])};
  }
  void done(step called) { next = static_cast<step>((static_cast<int>(called) + 1) % 4); }

  void allocate();
  template <class Output>
  void combine_wait(const float* topk_weights, const void* out, const Output& output, stream_ref stream);
};

namespace {

/// For ep::make_ready.
struct creating_host {
  const world& ranks;
  const bootstrap::group& all;
  void fill(void* at, unsigned char byte, std::size_t bytes) const { fill_async(ranks, at, byte, bytes, {}); }
  template <class Step>
  void together(Step step) const {
    bootstrap::together(all, [&] {
      step();
      ranks.synchronize();
    });
  }
};

}  // namespace

void expert_parallel::state::allocate() {
  const std::string knob = "lower num_max_tokens_per_rank or top_k";
  const ep::window_layout in_window{end.s};
  const std::size_t local_bytes = ep::local_layout{end.s}.bytes;
  const bootstrap::group g = ranks.state().peers();
  require_memory_of_all(ranks, local_bytes + in_window.bytes, "expert_parallel", knob);
  bootstrap::together(g, [&] { local = {ranks, local_bytes, {"expert_parallel's received tokens", knob}}; });
  window = make_window(ranks, in_window.bytes, "expert_parallel's receive window", knob);
  end.local = local.data();
  for (int r = 0; r < end.s.num_ranks; ++r) end.windows.at[r] = window->peer(r);
  ep::make_ready(end, config.arrival, creating_host{ranks, g});
}

expert_parallel expert_parallel::create(const world& w, const ep_config& config) {
  require_agreement(w, config);
  if (const std::string reason = why_not(config, w.size()); !reason.empty()) throw invalid_argument{reason};
  std::unique_ptr<state> s;
  bootstrap::together(w.state().peers(), [&] { s = std::make_unique<state>(w, config); });
  s->allocate();
  return expert_parallel{std::move(s)};
}

std::vector<expert_parallel> expert_parallel::create_all(std::span<const world> worlds,
                                                         const ep_config& config) {
  std::vector<std::unique_ptr<state>> states(worlds.size());
  on_every_rank(worlds, [&](int r) {
    const auto rank = static_cast<std::size_t>(r);
    states[rank] = std::move(create(worlds[rank], config).state_);
  });
  std::vector<expert_parallel> all;
  for (auto& s : states) all.push_back(expert_parallel{std::move(s)});
  return all;
}

expert_parallel::expert_parallel(std::unique_ptr<state> s) : state_{std::move(s)} {}
expert_parallel::expert_parallel(expert_parallel&&) noexcept = default;
expert_parallel& expert_parallel::operator=(expert_parallel&&) noexcept = default;
expert_parallel::~expert_parallel() = default;

void expert_parallel::dispatch_async(const bfloat16* tokens, const std::int32_t* topk_idx, int num_tokens,
                                     stream_ref stream, const float* input_scales) {
  state& st = present(state_);
  st.advance(step::dispatch_async);
  if (num_tokens < 0 || num_tokens > st.end.s.max_tokens)
    throw invalid_argument{
        fmt::format("num_tokens: {} is outside [0, {}]; raise num_max_tokens_per_rank or send in "
                    "several rounds",
                    num_tokens, st.end.s.max_tokens)};
  if (num_tokens > 0) {
    require_aligned("tokens", tokens, 16);
    require_aligned("topk_idx", topk_idx, 4);
  }
  if (input_scales != nullptr) {
    require_aligned("input_scales", input_scales, 4);
    if (!st.end.s.is_fp8())
      throw invalid_argument{"input_scales: given, but token_format bf16 has no scales"};
  }
  st.num_tokens = num_tokens;
  const ep::round_input input{tokens, topk_idx, num_tokens, {input_scales}};
  ep::launch(st.ranks, st.launch, st.end.dispatch_async(input), stream);
  st.done(step::dispatch_async);
}

received_tokens expert_parallel::dispatch_wait(stream_ref stream) {
  state& st = present(state_);
  st.advance(step::dispatch_wait);
  const ep::dispatch_wait_params p = st.end.dispatch_wait();
  ep::launch(st.ranks, st.launch, p, stream);
  st.done(step::dispatch_wait);
  return {p.tokens,
          st.end.s.is_fp8() ? p.scales : nullptr,
          p.row_offsets,
          p.row_counts,
          p.expert_ids,
          p.sources,
          st.end.s.num_local_experts(st.end.s.rank),
          st.end.s.max_rows(),
          st.config.format,
          st.end.s.hidden};
}

void expert_parallel::combine_async(const bfloat16* expert_output, stream_ref stream) {
  state& st = present(state_);
  st.advance(step::combine_async);
  require_aligned("expert_output", expert_output, 16);
  ep::launch(st.ranks, st.launch, st.end.combine_async(expert_output), stream);
  st.done(step::combine_async);
}

template <class Output>
void expert_parallel::state::combine_wait(const float* topk_weights, const void* out, const Output& output,
                                          stream_ref stream) {
  advance(step::combine_wait);
  if (num_tokens > 0) require_aligned("out", out, 16);
  if (topk_weights != nullptr) require_aligned("topk_weights", topk_weights, 4);
  ep::launch(ranks, launch, end.combine_wait(num_tokens, topk_weights, output), stream);
  done(step::combine_wait);
}

void expert_parallel::combine_wait(const float* topk_weights, float* out, stream_ref stream) {
  state& st = present(state_);
  st.combine_wait(topk_weights, out, ep::store_fp32{out, st.end.s.hidden}, stream);
}

void expert_parallel::combine_wait(const float* topk_weights, bfloat16* out, stream_ref stream) {
  state& st = present(state_);
  st.combine_wait(topk_weights, out, ep::store_bf16{out, st.end.s.hidden}, stream);
}

void expert_parallel::combine_wait_unreduced(bfloat16* out, stream_ref stream) {
  state& st = present(state_);
  st.combine_wait(nullptr, out, ep::store_unreduced{out, st.end.s.hidden, st.end.s.top_k}, stream);
}

void expert_parallel::check() {
  state& st = present(state_);
  ep::device_errors found{};
  ep::device_errors* at = st.end.errors();
  copy_async(st.ranks, &found, at, sizeof(found), {});
  st.ranks.synchronize();  // nothing that is queued may still write to `found` if what follows throws
  fill_async(st.ranks, at, 0xff, sizeof(found), {});
  st.ranks.synchronize();
  if (found.first_bad_id != ep::device_errors::none_found) {
    const auto position = static_cast<int>(found.first_bad_id >> 32);
    throw device_error{
        fmt::format("topk_idx: rank {}, token {}, choice {} is {}, outside [-1, {}); it was treated as -1",
                    st.end.s.rank, position / st.end.s.top_k, position % st.end.s.top_k,
                    static_cast<std::int32_t>(found.first_bad_id & 0xffffffffu), st.end.s.num_experts)};
  }
}

const ep_config& expert_parallel::config() const {
  return present(state_).config;
}
const world& expert_parallel::ranks() const {
  return present(state_).ranks;
}
expert_range expert_parallel::local_experts() const {
  const ep::shape& s = present(state_).end.s;
  return {s.first_expert(s.rank), s.num_local_experts(s.rank)};
}

}  // namespace baton
