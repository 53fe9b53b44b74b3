#include "baton/expert_parallel.hpp"

#include <fmt/format.h>

#include "api/agreement.hpp"
#include "baton/error.hpp"
#include "kernels/ep/launch.hpp"
#include "kernels/ep/token_format.hpp"
#include "runtime/device_memory.hpp"
#include "runtime/on_every_rank.hpp"
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
                            : 1024,
          w.state().limits()};
}

void require_aligned(const char* name, const void* pointer, std::size_t alignment) {
  if (pointer == nullptr) throw invalid_argument{fmt::format("{}: null", name)};
  if (reinterpret_cast<std::uintptr_t>(pointer) % alignment != 0)
    throw invalid_argument{fmt::format("{}: {} is not aligned to {} bytes", name, pointer, alignment)};
}

}  // namespace

struct expert_parallel::state {
  world ranks;
  ep_config config;
  ep::shape s;
  ep::window_layout in_window;
  ep::local_layout in_local;
  ep::launch_config launch;
  device_buffer local;
  std::unique_ptr<symmetric_window> window;
  step next = step::dispatch_async;
  int num_tokens = 0;
  int times_stuck;  // the world's, at creation

  state(const world& w, const ep_config& c)
      : ranks{w},
        config{c},
        s{c.num_experts, w.size(), w.rank(), c.top_k, c.hidden, c.num_max_tokens_per_rank, c.format},
        in_window{s},
        in_local{s},
        launch{launch_config_of(w, c)},
        times_stuck{w.state().times_stuck} {}

  template <class T>
  T* own(std::size_t offset) const {
    return reinterpret_cast<T*>(local.data() + offset);
  }
  template <class T>
  ep::peer_array<T> peers(std::size_t offset) const {
    ep::peer_array<T> all{};
    for (int r = 0; r < s.num_ranks; ++r) all.at[r] = window->peer_as<T>(r, offset);
    return all;
  }
  ep_local_sync_counters counters() const { return {own<std::int32_t>(in_local.counters), s.num_pairs()}; }
  int warps() const { return launch.blocks * launch.threads / warp_lanes; }

  /// Rounds are dispatch_async, dispatch_wait, combine_async, combine_wait: nothing else keeps buffers safe.
  /// After a time-out peers may still work on an old round in the same memory: only new memory is safe.
  void advance(step called) {
    if (ranks.state().times_stuck != times_stuck)
      throw invalid_argument{fmt::format(
          "{} called after a wait of rank {} gave up: this communicator is of no further use. Destroy "
          "it and create one anew, on every rank",
          names[static_cast<int>(called)], s.rank)};
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

void expert_parallel::state::allocate() {
  const std::string knob = "lower num_max_tokens_per_rank or top_k";
  local = device_buffer{ranks, in_local.bytes, "expert_parallel's received tokens", knob};
  window = make_window(ranks, in_window.bytes, "expert_parallel's receive window", knob);
  fill_async(ranks, own<void>(in_local.errors), 0xff, sizeof(ep::device_errors), {});
  if (config.arrival == arrival_policy::sentinel) {
    const std::size_t words = in_window.bytes - in_window.dispatch_count;
    fill_async(ranks, window->peer(ranks.rank()) + in_window.dispatch_count, 0xff, words, {});
  }
  ranks.synchronize();
  const char ready = 1;
  std::vector<char> all(static_cast<std::size_t>(ranks.size()));
  ranks.all_gather(&ready, all.data(), 1);  // nobody writes to a peer that has not initialised its words
}

expert_parallel expert_parallel::create(const world& w, const ep_config& config) {
  require_agreement(w, config);
  if (const std::string reason = why_not(config, w.size()); !reason.empty()) throw invalid_argument{reason};
  auto s = std::make_unique<state>(w, config);
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
  state& st = *state_;
  st.advance(step::dispatch_async);
  if (num_tokens < 0 || num_tokens > st.s.max_tokens)
    throw invalid_argument{
        fmt::format("num_tokens: {} is outside [0, {}]; raise num_max_tokens_per_rank or send in "
                    "several rounds",
                    num_tokens, st.s.max_tokens)};
  if (num_tokens > 0) {
    require_aligned("tokens", tokens, 16);
    require_aligned("topk_idx", topk_idx, 4);
  }
  if (input_scales != nullptr) {
    require_aligned("input_scales", input_scales, 4);
    if (!st.s.is_fp8()) throw invalid_argument{"input_scales: given, but token_format bf16 has no scales"};
  }
  ep::dispatch_async_params<> p{};
  p.s = st.s;
  p.tokens = tokens;
  p.topk_idx = topk_idx;
  p.num_tokens = st.num_tokens = num_tokens;
  p.split = ep::split_rows(ep::steps_of(st.s), num_tokens, st.warps());
  p.input_scales = {input_scales};
  p.receive = st.peers<std::byte>(st.in_window.dispatch_buffer);
  p.count = st.peers<std::uint64_t>(st.in_window.dispatch_count);
  p.counters = st.counters();
  p.send_slots = st.own<std::int32_t>(st.in_local.send_slots);
  p.rounds = st.own<ep::round_counters>(st.in_local.rounds);
  p.errors = st.own<ep::device_errors>(st.in_local.errors);
  ep::launch(st.ranks, st.launch, p, stream);
  st.done(step::dispatch_async);
}

received_tokens expert_parallel::dispatch_wait(stream_ref stream) {
  state& st = *state_;
  st.advance(step::dispatch_wait);
  ep::dispatch_wait_params p{};
  p.s = st.s;
  p.receive = st.window->peer_as<std::byte>(st.s.rank, st.in_window.dispatch_buffer);
  p.count = st.window->peer_as<std::uint64_t>(st.s.rank, st.in_window.dispatch_count);
  p.counters = st.counters();
  p.rounds = st.own<ep::round_counters>(st.in_local.rounds);
  p.tokens = st.own<std::byte>(st.in_local.tokens);
  p.scales = st.own<float>(st.in_local.scales);
  p.row_offsets = st.own<std::int32_t>(st.in_local.row_offsets);
  p.row_counts = st.own<std::int32_t>(st.in_local.row_counts);
  p.expert_ids = st.own<std::int32_t>(st.in_local.expert_ids);
  p.sources = st.own<source_info>(st.in_local.sources);
  ep::launch(st.ranks, st.launch, p, stream);
  st.done(step::dispatch_wait);
  return {p.tokens,  st.s.is_fp8() ? p.scales : nullptr, p.row_offsets,   p.row_counts,    p.expert_ids,
          p.sources, st.s.num_local_experts(st.s.rank),  st.s.max_rows(), st.config.format};
}

void expert_parallel::combine_async(const bfloat16* expert_output, stream_ref stream) {
  state& st = *state_;
  st.advance(step::combine_async);
  require_aligned("expert_output", expert_output, 16);
  ep::combine_async_params p{};
  p.s = st.s;
  p.expert_output = expert_output;
  p.sources = st.own<source_info>(st.in_local.sources);
  p.reply = st.peers<std::byte>(st.in_window.combine_buffer);
  p.count = st.peers<std::uint64_t>(st.in_window.combine_count);
  p.counters = st.counters();
  p.rounds = st.own<ep::round_counters>(st.in_local.rounds);
  p.errors = st.own<ep::device_errors>(st.in_local.errors);
  ep::launch(st.ranks, st.launch, p, stream);
  st.done(step::combine_async);
}

template <class Output>
void expert_parallel::state::combine_wait(const float* topk_weights, const void* out, const Output& output,
                                          stream_ref stream) {
  advance(step::combine_wait);
  if (num_tokens > 0) require_aligned("out", out, 16);
  ep::combine_wait_params<Output> p{};
  p.s = s;
  p.num_tokens = num_tokens;
  p.split = ep::split_rows(ep::reply_steps_of(s), num_tokens, warps());
  p.reply = window->peer_as<std::byte>(s.rank, in_window.combine_buffer);
  p.count = window->peer_as<std::uint64_t>(s.rank, in_window.combine_count);
  p.counters = counters();
  p.rounds = own<ep::round_counters>(in_local.rounds);
  p.send_slots = own<std::int32_t>(in_local.send_slots);
  p.router_weights = {topk_weights, s.top_k};
  p.output = output;
  ep::launch(ranks, launch, p, stream);
  done(step::combine_wait);
}

void expert_parallel::combine_wait(const float* topk_weights, float* out, stream_ref stream) {
  state_->combine_wait(topk_weights, out, ep::store_fp32{out, state_->s.hidden}, stream);
}

void expert_parallel::combine_wait(const float* topk_weights, bfloat16* out, stream_ref stream) {
  state_->combine_wait(topk_weights, out, ep::store_bf16{out, state_->s.hidden}, stream);
}

void expert_parallel::combine_wait_unreduced(bfloat16* out, stream_ref stream) {
  state_->combine_wait(nullptr, out, ep::store_unreduced{out, state_->s.hidden, state_->s.top_k}, stream);
}

void expert_parallel::check() {
  state& st = *state_;
  ep::device_errors found{};
  auto* at = st.own<ep::device_errors>(st.in_local.errors);
  copy_async(st.ranks, &found, at, sizeof(found), {});
  fill_async(st.ranks, at, 0xff, sizeof(found), {});
  st.ranks.synchronize();
  if (found.first_bad_id != ep::device_errors::none_found) {
    const auto position = static_cast<int>(found.first_bad_id >> 32);
    throw device_error{
        fmt::format("topk_idx: rank {}, token {}, choice {} is {}, outside [-1, {}); it was treated as -1",
                    st.s.rank, position / st.s.top_k, position % st.s.top_k,
                    static_cast<std::int32_t>(found.first_bad_id & 0xffffffffu), st.s.num_experts)};
  }
  if (found.first_bad_source != ep::device_errors::none_found) {
    throw device_error{
        fmt::format("sources: rank {}, received row {} names token {} of a rank that sent no such token; its "
                    "output was not sent "
                    "back. Was the memory of the communicator overwritten?",
                    st.s.rank, found.first_bad_source >> 32,
                    static_cast<std::int32_t>(found.first_bad_source & 0xffffffffu))};
  }
}

const ep_config& expert_parallel::config() const {
  return state_->config;
}
const world& expert_parallel::ranks() const {
  return state_->ranks;
}
expert_range expert_parallel::local_experts() const {
  return {state_->s.first_expert(state_->s.rank), state_->s.num_local_experts(state_->s.rank)};
}

}  // namespace baton
