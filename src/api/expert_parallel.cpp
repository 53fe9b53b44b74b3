#include "baton/expert_parallel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <optional>

#include "api/agreement.hpp"
#include "api/dump_state.hpp"
#include "api/ep_arguments.hpp"
#include "api/ep_members.hpp"
#include "api/ep_round.hpp"
#include "api/ep_workspace.hpp"
#include "api/whole_lines.hpp"
#include "baton/device_buffer.hpp"
#include "baton/error.hpp"
#include "bootstrap/group.hpp"
#include "kernels/ep/lost_rank/launch.hpp"
#include "runtime/on_cuda.hpp"
#include "runtime/stuck_report.hpp"
#include "runtime/world_state.hpp"

namespace baton {
namespace {

/// What a communicator has, unless it was moved from.
template <class State>
State& present(const std::unique_ptr<State>& s) {
  if (s == nullptr)
    throw invalid_argument{"expert_parallel: this one was moved from; use the one it was moved to"};
  return *s;
}

}  // namespace

struct expert_parallel::state {
  static constexpr int of_no_use = -1;  // as times_lost
  world ranks;
  ep_config config;
  std::deque<ep_round> rounds;  // of each slot
  std::optional<ep_workspace> workspace;
  int times_lost;  // the world's, at creation, or when its members last met
  std::atomic<std::uint64_t>
      members;                  // member_word, of up to a p2p group's ranks; dump_state looks from any thread
  std::uint64_t last_told = 0;  // epoch of a membership, also of one that did not come about
  const int exceptions = std::uncaught_exceptions();

  state(const world& w, const ep_config& c)
      : ranks{w},
        config{c},
        times_lost{w.state().times_lost},
        members{word_of(all_members(std::min(w.size(), ep::max_near_ranks)))} {
    for (int slot = 0; slot < c.num_slots; ++slot) rounds.emplace_back(w, c, slot);
  }
  /// An exception that ends the scope ends the scopes of what the caller had passed too. Beyond the p2p group what a round that
  /// is not over has put may still come, as nobody awaited it.
  ~state() {
    ranks.state().asked_when_stuck.remove(this);
    const bool is_unwound = std::uncaught_exceptions() > exceptions;
    if (is_unwound) ranks.state().abandon_work();
    if (goes_beyond_group(config, ranks.size()) && (is_unwound || has_round_under_way()))
      ++ranks.state().rounds_left;
  }
  bool has_round_under_way() const {
    return std::ranges::any_of(rounds, [](const ep_round& of_slot) { return !of_slot.is_over(); });
  }

  /// After a time-out peers may still work on an old round in the same memory: only new memory is safe.
  void require_sound(const char* called) const {
    if (ranks.state().times_lost == times_lost) return;
    const bool is_beyond = goes_beyond_group(config, ranks.size());
    throw invalid_argument{
        fmt::format("{} called after work of rank {} was lost: a wait gave up, or an exception ended it. "
                    "This communicator is of no further use. {}",
                    called, ranks.rank(),
                    way_on(config.layout == ep_layout::per_rank && !is_beyond,
                           is_beyond && ranks.device() == device_kind::cuda))};
  }
  void require_memory(const char* called) const {
    if (workspace->is_released())
      throw invalid_argument{fmt::format(
          "{} called while this communicator's memory is released; reacquire it first, on every rank",
          called)};
  }
  /// The slot's round, for a call.
  ep_round& round(int slot, const char* called) {
    require_slot(config, slot);
    require_sound(called);
    require_memory(called);
    return rounds[static_cast<std::size_t>(slot)];
  }

  void allocate();
  void ask_who_was_lost(stream_ref stream) const;
  void has_waited(stream_ref stream) const;
  void make_ready() const;
  void require_idle() const;
  void drop_rounds();
  void begin_anew(const ep_membership& with);
  void write_absent(const ep_membership& now);
  /// More ranks than a p2p group may have are all members for good.
  ep_membership who_takes_part() const {
    return ranks.size() > ep::max_near_ranks ? all_members(ranks.size()) : members_of(members);
  }
};

namespace {

/// For ep_layout_calls::make_ready, of a rank whose others meet it elsewhere.
struct lone_host : ep_layout_calls::creating_host {
  const world& ranks;
  explicit lone_host(const world& w) : ranks{w} {}
  void fill(void* at, unsigned char byte, std::size_t bytes) const override {
    fill_async(ranks, at, byte, bytes, {});
  }
  void together(const std::function<void()>& step) const override { step(); }
};

/// The same with all ranks.
struct world_host final : lone_host {
  const bootstrap::group& all;
  world_host(const world& w, const bootstrap::group& g) : lone_host{w}, all{g} {}
  void together(const std::function<void()>& step) const override {
    bootstrap::together(all, [&] {
      step();
      ranks.synchronize();
    });
  }
};

}  // namespace

std::unique_ptr<ep_layout_calls> make_layout(const world& w, const ep_config& c, int slot) {
  const int sms = sms_of(w);
  if (c.num_sms > sms && w.device() != device_kind::cpu)
    throw invalid_argument{fmt::format("num_sms: {} is more than the {} that rank {} may use on its device",
                                       c.num_sms, sms, w.rank())};
  return c.layout == ep_layout::per_rank ? make_per_rank_layout(w, c, sms, slot)
                                         : make_per_expert_layout(w, c, sms, slot);
}

void expert_parallel::state::allocate() {
  workspace.emplace(ranks, config);
  for (int slot = 0; slot < config.num_slots; ++slot)
    rounds[static_cast<std::size_t>(slot)].calls().place(workspace->local_of(slot),
                                                         workspace->windows_of(slot));
  make_ready();
  if (ranks.device() == device_kind::cuda && goes_beyond_group(config, ranks.size()))
    ranks.state().asked_when_stuck.add(this, [this] { ask_who_was_lost({}); });
}

/// Beyond the p2p group: who was lost, if a wait gave up. On CUDA, where it would take time in each call, once the host knows
/// that one did; the CPU's ranks may be one thread's, which would ask for one while others have not given up yet.
void expert_parallel::state::ask_who_was_lost(stream_ref stream) const {
  ep::lost_rank::launch(ranks, workspace->words_of_loss(), has_two_levels(config, ranks.size()), stream);
  if (ranks.device() == device_kind::cuda) on_cuda::wait_for_stream(ranks.state(), stream);
}
void expert_parallel::state::has_waited(stream_ref stream) const {
  if (ranks.device() == device_kind::cpu && goes_beyond_group(config, ranks.size())) ask_who_was_lost(stream);
}

/// What zeroed memory lacks.
void expert_parallel::state::make_ready() const {
  const bootstrap::group g = ranks.state().peers();
  for (const ep_round& of_slot : rounds) of_slot.calls().make_ready(world_host{ranks, g});
  forget_waits(ranks.state());
}

/// Whatever rounds are under way: nothing of this rank's runs any more, and nothing can be called until members have met.
void expert_parallel::state::drop_rounds() {
  times_lost = of_no_use;
  ranks.state().abandon_work();
  try {
    synchronize_all(ranks);
  } catch (const stuck&) {  // in one of these rounds
  }
}

/// This rank's memory as it was made, and who is absent; nobody sends until the members have met again.
void expert_parallel::state::begin_anew(const ep_membership& with) {
  workspace->clear();
  for (ep_round& of_slot : rounds) {
    of_slot.calls().make_ready(lone_host{ranks});
    of_slot.begin_anew();
  }
  write_absent(with);
  forget_waits(ranks.state());
}

/// Zeroed memory says that nobody is; layouts in which all always take part have no place for it.
void expert_parallel::state::write_absent(const ep_membership& now) {
  const std::uint64_t absent = all_members(ranks.size()).active_ranks & ~now.active_ranks;
  for (const ep_round& of_slot : rounds)
    if (std::uint64_t* to = of_slot.calls().absent(); to != nullptr)
      copy_async(ranks, to, &absent, sizeof absent, {});
  ranks.synchronize();
}

/// Of all ranks' rounds, once all ranks have passed this: nobody sends to a rank whose rounds are over.
void expert_parallel::state::require_idle() const {
  require_sound("release");
  require_memory("release");
  for (const ep_round& of_slot : rounds)
    if (!of_slot.is_over())
      throw invalid_argument{fmt::format("release called on rank {} where {} is due: end the round first",
                                         ranks.rank(), of_slot.due())};
}

expert_parallel expert_parallel::create(const world& w, const ep_config& asked) {
  require_agreement(w, asked);
  const ep_config config = in_groups_by_host(asked, w.hosts());
  if (const std::string reason = why_not(config, w.size()); !reason.empty()) throw invalid_argument{reason};
  if (config.layout == ep_layout::per_rank && transfer_of(config, w.size()) != ep_transfer::flags)
    require_whole_lines(w, config.p2p_group_size);
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

void expert_parallel::release() {
  state& st = present(state_);
  bootstrap::together(st.ranks.state().peers(), [&] {
    st.workspace->require_releasable();
    st.require_idle();
    synchronize_all(st.ranks);
  });
  st.workspace->release();
}

void expert_parallel::reacquire() {
  state& st = present(state_);
  bootstrap::together(st.ranks.state().peers(), [&] {
    st.require_sound("reacquire");
    if (!st.workspace->is_released())
      throw invalid_argument{
          fmt::format("reacquire called on rank {}, which has its memory; release it first, on every rank",
                      st.ranks.rank())};
  });
  st.workspace->reacquire();
  try {
    st.make_ready();
    st.write_absent(st.who_takes_part());
  } catch (...) {
    st.workspace->drop();
    throw;
  }
}

void expert_parallel::set_members(const ep_membership& members) {
  state& st = present(state_);
  st.require_memory("set_members");
  if (st.config.layout != ep_layout::per_rank)
    throw invalid_argument{
        "set_members: with layout per_expert all ranks always take part; use layout per_rank"};
  if (goes_beyond_group(st.config, st.ranks.size()))
    throw invalid_argument{
        fmt::format("set_members: p2p_group_size is {} of {} ranks, and members meet by stores, which reach "
                    "one group; use one of all "
                    "(0, up to {} ranks)",
                    st.config.p2p_group_size, st.ranks.size(), ep::max_near_ranks)};
  require_next(st.ranks, members, st.last_told);
  st.drop_rounds();
  st.last_told = members.epoch;
  meet(st.ranks, *st.workspace, members, 0);
  st.begin_anew(members);
  meet(st.ranks, *st.workspace, members, 1);
  st.members = word_of(members);
  st.times_lost = st.ranks.state().times_lost;
}

ep_membership expert_parallel::members() const {
  return present(state_).who_takes_part();
}

void expert_parallel::dispatch_async(const dispatch_input& in, stream_ref stream) {
  present(state_).round(in.slot, "dispatch_async").dispatch_async(in, stream);
}

received_tokens expert_parallel::dispatch_wait(stream_ref stream, int slot) {
  state& st = present(state_);
  const received_tokens received = st.round(slot, "dispatch_wait").dispatch_wait(stream);
  st.has_waited(stream);
  return received;
}

received_tokens expert_parallel::room(int slot) const {
  const state& st = present(state_);
  require_slot(st.config, slot);
  return st.rounds[static_cast<std::size_t>(slot)].calls().received();
}

received_tokens expert_parallel::dispatch(const dispatch_input& in, stream_ref stream) {
  state& st = present(state_);
  const received_tokens received = st.round(in.slot, "dispatch").dispatch(in, stream);
  st.has_waited(stream);
  return received;
}

void expert_parallel::combine_async(const combine_input& in, stream_ref stream) {
  present(state_).round(in.slot, "combine_async").combine_async(in, stream);
}

void expert_parallel::combine_wait(const float* topk_weights, float* out, stream_ref stream, int slot) {
  state& st = present(state_);
  st.round(slot, "combine_wait")
      .combine_wait(topk_weights, out, ep::store_fp32{out, st.config.hidden}, stream);
  st.has_waited(stream);
}

void expert_parallel::combine_wait(const float* topk_weights, bfloat16* out, stream_ref stream, int slot) {
  state& st = present(state_);
  st.round(slot, "combine_wait")
      .combine_wait(topk_weights, out, ep::store_bf16{out, st.config.hidden}, stream);
  st.has_waited(stream);
}

void expert_parallel::combine_wait_unreduced(bfloat16* out, stream_ref stream, int slot) {
  state& st = present(state_);
  if (st.config.layout == ep_layout::per_rank)
    throw invalid_argument{
        "combine_wait_unreduced: with layout per_rank ranks send sums, not rows; use layout per_expert"};
  st.round(slot, "combine_wait_unreduced")
      .combine_wait(nullptr, out, ep::store_unreduced{out, st.config.hidden, st.config.top_k}, stream);
  st.has_waited(stream);
}

void expert_parallel::combine(const combine_input& in, float* out, stream_ref stream) {
  state& st = present(state_);
  st.round(in.slot, "combine").combine(in, out, ep::store_fp32{out, st.config.hidden}, stream);
  st.has_waited(stream);
}

void expert_parallel::combine(const combine_input& in, bfloat16* out, stream_ref stream) {
  state& st = present(state_);
  st.round(in.slot, "combine").combine(in, out, ep::store_bf16{out, st.config.hidden}, stream);
  st.has_waited(stream);
}

namespace {

/// What a slot's kernels found since the last look.
ep::device_errors take_errors(const world& w, const ep_layout_calls& calls) {
  ep::device_errors found{};
  ep::device_errors* at = calls.errors();
  copy_async(w, &found, at, sizeof(found), {});
  w.synchronize();  // nothing that is queued may still write to `found` if what follows throws
  fill_async(w, at, 0xff, sizeof(found), {});
  w.synchronize();
  return found;
}

std::string bad_id_text(const world& w, const ep_config& c, int slot, const ep_round& round,
                        const ep::device_errors& found) {
  const auto position = static_cast<int>(found.first_bad_id >> 32);
  const auto id = static_cast<std::int32_t>(found.first_bad_id & 0xffffffffu);
  return fmt::format("topk_idx: rank {}, {}token {}, choice {} is {}; it was treated as -1", w.rank(),
                     c.num_slots > 1 ? fmt::format("slot {}, ", slot) : "", position / c.top_k,
                     position % c.top_k, round.why_no_expert(id));
}

}  // namespace

void expert_parallel::check() {
  const state& st = present(state_);
  st.require_memory("check");
  std::string first;
  for (int slot = 0; slot < st.config.num_slots; ++slot) {
    const ep_round& round = st.rounds[static_cast<std::size_t>(slot)];
    const ep::device_errors found = take_errors(st.ranks, round.calls());
    if (found.first_bad_id != ep::device_errors::none_found && first.empty())
      first = bad_id_text(st.ranks, st.config, slot, round, found);
  }
  if (!first.empty()) throw device_error{first};
}

ep_state expert_parallel::dump_state() const {
  const state& st = present(state_);
  ep_state found;
  look_at_waits(st.ranks, found);
  found.configuration = text_of(st.config, st.ranks);
  found.members = st.who_takes_part();
  // Of the first slot whose round is not over.
  const ep_round* shown = &st.rounds.front();
  for (const ep_round& of_slot : st.rounds)
    if (shown->is_over()) shown = &of_slot;
  found.due = shown->due();
  found.rounds_called = shown->rounds_called();
  const auto read = [&st](void* to, const void* from, std::size_t bytes) {
    read_beside_kernels(st.ranks.state(), to, from, bytes);
  };
  if (!st.workspace->is_released()) shown->calls().look(read, found);
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
