#include "baton/expert_parallel.hpp"

#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <limits>

#include "api/agreement.hpp"
#include "api/dump_state.hpp"
#include "api/ep_layout.hpp"
#include "baton/device_buffer.hpp"
#include "baton/error.hpp"
#include "bootstrap/group.hpp"
#include "runtime/on_cuda.hpp"
#include "runtime/window.hpp"
#include "runtime/world_state.hpp"

namespace baton {
namespace {

enum class step { dispatch_async, dispatch_wait, combine_async, combine_wait };
constexpr const char* names[] = {"dispatch_async", "dispatch_wait", "combine_async", "combine_wait"};

void require_aligned(const char* name, const void* pointer, std::size_t alignment) {
  if (pointer == nullptr) throw invalid_argument{fmt::format("{}: null", name)};
  if (reinterpret_cast<std::uintptr_t>(pointer) % alignment != 0)
    throw invalid_argument{fmt::format("{}: {} is not aligned to {} bytes", name, pointer, alignment)};
}

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
  std::unique_ptr<ep_layout_calls> calls;
  device_buffer<std::byte> local;
  std::unique_ptr<symmetric_window> window;
  std::atomic<step> next = step::dispatch_async;  // dump_state reads these two from any thread
  std::atomic<std::uint64_t> rounds_called = 0;
  int num_tokens = 0;
  int num_logical = 0;                // experts that the round's ids are of, if there is a map
  bool weights_given = false;         // at dispatch
  const void* tokens_once = nullptr;  // the round's received tokens, where they do not lie by expert
  int times_lost;                     // the world's, at creation
  const int exceptions = std::uncaught_exceptions();

  state(const world& w, const ep_config& c)
      : ranks{w}, config{c}, calls{make_layout(w, c)}, times_lost{w.state().times_lost} {}
  /// An exception that ends the scope ends the scopes of what the caller had passed too.
  ~state() {
    if (std::uncaught_exceptions() > exceptions) ranks.state().abandon_work();
  }

  /// Rounds are dispatch_async, dispatch_wait, combine_async, combine_wait: nothing else keeps buffers safe.
  /// After a time-out peers may still work on an old round in the same memory: only new memory is safe.
  void require(step due, const char* called) const {
    if (ranks.state().times_lost != times_lost)
      throw invalid_argument{
          fmt::format("{} called after work of rank {} was lost: a wait gave up, or an exception ended it. "
                      "This communicator is of no further use. Destroy "
                      "it and create one anew, on every rank",
                      called, ranks.rank())};
    if (due != next)
      throw invalid_argument{
          fmt::format("{} called where {} is due: a round is dispatch_async, dispatch_wait, "
                      "combine_async, combine_wait, in this order",
                      called, names[static_cast<int>(next.load())])};
  }
  void require(step due) const { require(due, names[static_cast<int>(due)]); }
  void done(step called) { next = static_cast<step>((static_cast<int>(called) + 1) % 4); }

  void allocate();
  void check_input(const dispatch_input& in) const;
  void begin_round(const dispatch_input& in, const char* called);
  void combine_wait(const float* topk_weights, const void* out, const ep_layout_calls::output& output,
                    stream_ref stream);
  void combine(const combine_input& in, const void* out, const ep_layout_calls::output& output,
               stream_ref stream);
  void require_sms(int num_sms) const;
  void require_map(const expert_map& map) const;
  void check_input(const combine_input& in) const;
  received_tokens dispatched(const received_tokens& received);
  std::string why_no_expert(std::int32_t id) const;
};

namespace {

/// For ep_layout_calls::make_ready.
struct world_host final : ep_layout_calls::creating_host {
  const world& ranks;
  const bootstrap::group& all;
  world_host(const world& w, const bootstrap::group& g) : ranks{w}, all{g} {}
  void fill(void* at, unsigned char byte, std::size_t bytes) const override {
    fill_async(ranks, at, byte, bytes, {});
  }
  void together(const std::function<void()>& step) const override {
    bootstrap::together(all, [&] {
      step();
      ranks.synchronize();
    });
  }
};

}  // namespace

std::unique_ptr<ep_layout_calls> make_layout(const world& w, const ep_config& c) {
  const int sms = sms_of(w);
  if (c.num_sms > sms && w.device() != device_kind::cpu)
    throw invalid_argument{fmt::format("num_sms: {} is more than the {} that rank {} may use on its device",
                                       c.num_sms, sms, w.rank())};
  return c.layout == ep_layout::per_rank ? make_per_rank_layout(w, c, sms)
                                         : make_per_expert_layout(w, c, sms);
}

void expert_parallel::state::allocate() {
  const std::string knob = "lower num_max_tokens_per_rank or top_k";
  const workspace_size bytes = workspace_bytes(config, ranks.size());
  const bootstrap::group g = ranks.state().peers();
  require_memory_of_all(ranks, bytes.total(), "expert_parallel", knob);
  bootstrap::together(g, [&] { local = {ranks, bytes.local, {"expert_parallel's received tokens", knob}}; });
  window = make_window(ranks, bytes.window, "expert_parallel's receive window", knob);
  ep::peer_array<std::byte> windows{};
  for (int r = 0; r < ranks.size(); ++r) windows.at[r] = window->peer(r);
  calls->place(local.data(), windows);
  calls->make_ready(world_host{ranks, g});
  forget_waits(ranks.state());
}

void expert_parallel::state::check_input(const dispatch_input& in) const {
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
  if (in.num_tokens > 0) {
    require_aligned("tokens", from.values, 16);
    const int scales_of_load = config.format == token_format::nvfp4 ? 2 : 1;
    if (from.is_given)
      require_aligned("tokens.scales", from.scales,
                      static_cast<std::size_t>(facts.scale_bytes * scales_of_load));
    require_aligned("topk_idx", in.topk_idx.data, in.topk_idx.is_wide ? 8 : 4);
  }
  if (in.topk_weights != nullptr) require_aligned("topk_weights", in.topk_weights, 4);
  if (in.input_scales != nullptr) require_input_scales(in, config.format);
  require_sms(in.num_sms);
  if (in.host_counts != nullptr) {
    require_aligned("host_counts", in.host_counts, 4);
    require_reach(ranks, "host_counts", in.host_counts);
  }
  if (in.expert_load != nullptr) require_aligned("expert_load", in.expert_load, 8);
  require_map(in.replicas);
}

/// What the tables say, the kernels check.
void expert_parallel::state::require_map(const expert_map& map) const {
  if (map.logical_to_physical == nullptr && map.replica_counts == nullptr) return;
  require_aligned("replicas.logical_to_physical", map.logical_to_physical, 4);
  require_aligned("replicas.replica_counts", map.replica_counts, 4);
  const auto require_count = [&](const char* name, int value) {
    if (value < 1 || value > config.num_experts)
      throw invalid_argument{
          fmt::format("replicas.{}: {} is outside [1, {}], the experts of this communicator", name, value,
                      config.num_experts)};
  };
  require_count("num_logical", map.num_logical);
  require_count("max_replicas", map.max_replicas);
}

void expert_parallel::state::require_sms(int num_sms) const {
  if (num_sms < 0 || num_sms > calls->num_sms())
    throw invalid_argument{
        fmt::format("num_sms: {} is outside [0, {}], what this communicator was created with; 0 means all",
                    num_sms, calls->num_sms())};
}

std::string expert_parallel::state::why_no_expert(std::int32_t id) const {
  using limits = std::numeric_limits<std::int32_t>;  // what ids of 64 bits beyond them are noted as
  if (id >= 0 && id < num_logical)
    return fmt::format(
        "logical expert {}, of which replicas name none of the {} experts of this communicator: a count is "
        "outside [1, max_replicas], or a physical expert outside [0, {})",
        id, config.num_experts, config.num_experts);
  return fmt::format("{}{}, outside [-1, {})", id,
                     id == limits::max()   ? " or more"
                     : id == limits::min() ? " or less"
                                           : "",
                     num_logical > 0 ? num_logical : config.num_experts);
}

void expert_parallel::state::check_input(const combine_input& in) const {
  require_aligned("expert_output", in.expert_output, 16);
  if (in.expert_output == tokens_once)
    throw invalid_argument{
        "expert_output: the received tokens themselves, which with rows by_token do not lie by expert; give "
        "[max_rows, hidden] bf16, the output for row r at r"};
  require_sms(in.num_sms);
}

/// The round's tokens are known.
received_tokens expert_parallel::state::dispatched(const received_tokens& received) {
  tokens_once = received.token_rows != nullptr ? received.tokens : nullptr;
  done(step::dispatch_wait);
  return received;
}

void expert_parallel::state::begin_round(const dispatch_input& in, const char* called) {
  require(step::dispatch_async, called);
  check_input(in);
  ++rounds_called;
  num_tokens = in.num_tokens;
  num_logical = in.replicas.replica_counts != nullptr ? in.replicas.num_logical : 0;
  weights_given = in.topk_weights != nullptr;
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

void expert_parallel::dispatch_async(const dispatch_input& in, stream_ref stream) {
  state& st = present(state_);
  st.begin_round(in, "dispatch_async");
  st.calls->dispatch_async(in, stream);
  st.done(step::dispatch_async);
}

received_tokens expert_parallel::dispatch_wait(stream_ref stream) {
  state& st = present(state_);
  st.require(step::dispatch_wait);
  return st.dispatched(st.calls->dispatch_wait(stream));
}

received_tokens expert_parallel::dispatch(const dispatch_input& in, stream_ref stream) {
  state& st = present(state_);
  st.begin_round(in, "dispatch");
  return st.dispatched(st.calls->dispatch(in, stream));
}

void expert_parallel::combine_async(const combine_input& in, stream_ref stream) {
  state& st = present(state_);
  st.require(step::combine_async);
  st.check_input(in);
  st.calls->combine_async(in, stream);
  st.done(step::combine_async);
}

void expert_parallel::state::combine_wait(const float* topk_weights, const void* out,
                                          const ep_layout_calls::output& output, stream_ref stream) {
  require(step::combine_wait);
  if (num_tokens > 0) require_aligned("out", out, 16);
  if (topk_weights != nullptr) require_aligned("topk_weights", topk_weights, 4);
  if (topk_weights != nullptr && weights_given)
    throw invalid_argument{"topk_weights: given to dispatch and to combine_wait; give them once"};
  if (topk_weights != nullptr && config.layout == ep_layout::per_rank)
    throw invalid_argument{
        "topk_weights: with layout per_rank the experts' ranks apply them: give them to dispatch or "
        "dispatch_async"};
  calls->combine_wait(topk_weights, output, stream);
  done(step::combine_wait);
}

void expert_parallel::state::combine(const combine_input& in, const void* out,
                                     const ep_layout_calls::output& output, stream_ref stream) {
  require(step::combine_async, "combine");
  check_input(in);
  if (num_tokens > 0) require_aligned("out", out, 16);
  calls->combine(in, output, stream);
  done(step::combine_wait);
}

void expert_parallel::combine_wait(const float* topk_weights, float* out, stream_ref stream) {
  state& st = present(state_);
  st.combine_wait(topk_weights, out, ep::store_fp32{out, st.config.hidden}, stream);
}

void expert_parallel::combine_wait(const float* topk_weights, bfloat16* out, stream_ref stream) {
  state& st = present(state_);
  st.combine_wait(topk_weights, out, ep::store_bf16{out, st.config.hidden}, stream);
}

void expert_parallel::combine_wait_unreduced(bfloat16* out, stream_ref stream) {
  state& st = present(state_);
  if (st.config.layout == ep_layout::per_rank)
    throw invalid_argument{
        "combine_wait_unreduced: with layout per_rank ranks send sums, not rows; use layout per_expert"};
  st.combine_wait(nullptr, out, ep::store_unreduced{out, st.config.hidden, st.config.top_k}, stream);
}

void expert_parallel::combine(const combine_input& in, float* out, stream_ref stream) {
  state& st = present(state_);
  st.combine(in, out, ep::store_fp32{out, st.config.hidden}, stream);
}

void expert_parallel::combine(const combine_input& in, bfloat16* out, stream_ref stream) {
  state& st = present(state_);
  st.combine(in, out, ep::store_bf16{out, st.config.hidden}, stream);
}

void expert_parallel::check() {
  state& st = present(state_);
  ep::device_errors found{};
  ep::device_errors* at = st.calls->errors();
  copy_async(st.ranks, &found, at, sizeof(found), {});
  st.ranks.synchronize();  // nothing that is queued may still write to `found` if what follows throws
  fill_async(st.ranks, at, 0xff, sizeof(found), {});
  st.ranks.synchronize();
  if (found.first_bad_id == ep::device_errors::none_found) return;
  const auto position = static_cast<int>(found.first_bad_id >> 32);
  const auto id = static_cast<std::int32_t>(found.first_bad_id & 0xffffffffu);
  throw device_error{fmt::format("topk_idx: rank {}, token {}, choice {} is {}; it was treated as -1",
                                 st.ranks.rank(), position / st.config.top_k, position % st.config.top_k,
                                 st.why_no_expert(id))};
}

ep_state expert_parallel::dump_state() const {
  const state& st = present(state_);
  ep_state found;
  look_at_waits(st.ranks, found);
  found.configuration = text_of(st.config, st.ranks.device());
  found.due = names[static_cast<int>(st.next.load())];
  found.rounds_called = st.rounds_called.load();
  const auto read = [&st](void* to, const void* from, std::size_t bytes) {
    read_beside_kernels(st.ranks.state(), to, from, bytes);
  };
  st.calls->look(read, found);
  return found;
}

const ep_config& expert_parallel::config() const {
  return present(state_).config;
}
const world& expert_parallel::ranks() const {
  return present(state_).ranks;
}
expert_range expert_parallel::local_experts() const {
  const state& st = present(state_);
  return experts_of_rank(st.config.num_experts, st.ranks.size(), st.ranks.rank());
}

}  // namespace baton
