// The steps of an execution. Its beginning, barriers and end: sim/check/lifecycle.cpp.
#include "sim/check/execution.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace baton::check {
namespace {

constexpr int most_choices = 4096;

}  // namespace

int execution::pending_word(int warp) {
  const operation& op = pending(warp);
  return op.address == nullptr ? -1 : shop_.ram.word_at(op.address, op.bytes);
}

execution::standing execution::survey() {
  standing s;
  for (int w = 0; w < num_warps(); ++w) {
    const warp_state& state = warps_[static_cast<std::size_t>(w)];
    if (state.finished) continue;
    s.unfinished |= only(w);
    if (is_barrier(state.pending.what)) continue;
    bool enabled = true, certain = true;
    if (const wait_request* request = state.pending.wait; request != nullptr && !request->may_time_out) {
      collect_candidates(w, *request);
      for (int i = 0; i < request->num_words; ++i) {
        const auto& found = candidates_[static_cast<std::size_t>(i)];
        const atomic_word& word = shop_.ram.word(candidate_words_[static_cast<std::size_t>(i)]);
        enabled = enabled && !found.empty();
        certain = certain && !found.empty() && found.front() == static_cast<int>(word.messages.size()) - 1;
      }
    }
    if (enabled) s.enabled |= only(w);
    if (certain) s.certain |= only(w);
  }
  return s;
}

void execution::collect_candidates(int warp, const wait_request& request) {
  const int bytes = pending(warp).bytes;
  for (int i = 0; i < request.num_words; ++i) {
    const awaited_word& asked = request.words[static_cast<std::size_t>(i)];
    auto& found = candidates_[static_cast<std::size_t>(i)];
    found.clear();
    candidate_words_[static_cast<std::size_t>(i)] = shop_.ram.word_at(asked.address, bytes);
    const atomic_word& word = shop_.ram.word(candidate_words_[static_cast<std::size_t>(i)]);
    const int oldest = shop_.ram.oldest_readable(warp, word);
    for (int m = static_cast<int>(word.messages.size()) - 1; m >= oldest; --m) {
      const std::uint64_t value = word.messages[static_cast<std::size_t>(m)].value;
      if (request.holds(request.predicate, asked.lane, value)) found.push_back(m);
    }
  }
}

/// The choice-th combination of candidates that counts; false if there are fewer.
bool execution::choose_messages(int choice, int newer_than, const wait_request& request) {
  std::int64_t total = 1;
  for (int i = 0; i < request.num_words; ++i) {
    total *= static_cast<std::int64_t>(candidates_[static_cast<std::size_t>(i)].size());
    if (total > most_choices) {
      shop_.found.add(verdict::too_long,
                      fmt::format("a wait at {} can end in more than {} ways: check a smaller "
                                  "program",
                                  name(request.where.where), most_choices));
      total = most_choices;
      break;
    }
  }
  for (std::int64_t ordinal = 0; ordinal < total; ++ordinal) {
    bool fresh = newer_than < 0;
    std::int64_t rest = ordinal;
    for (int i = 0; i < request.num_words; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const auto count = static_cast<std::int64_t>(candidates_[at].size());
      chosen_[at] = candidates_[at][static_cast<std::size_t>(rest % count)];
      rest /= count;
      const atomic_word& word = shop_.ram.word(candidate_words_[at]);
      fresh = fresh || word.messages[static_cast<std::size_t>(chosen_[at])].born >= newer_than;
    }
    if (fresh && choice-- == 0) return true;
  }
  return false;
}

int execution::choices(int warp, int newer_than) {
  const operation& op = pending(warp);
  if (op.what == verb::load) {
    const atomic_word& word = shop_.ram.word(pending_word(warp));
    const int newest = static_cast<int>(word.messages.size()) - 1;
    int count = 0;
    for (int m = newest; m >= shop_.ram.oldest_readable(warp, word); --m) {
      if (newer_than >= 0 && word.messages[static_cast<std::size_t>(m)].born < newer_than) break;
      ++count;
    }
    return count;
  }
  if (op.what != verb::wait) return newer_than < 0 ? 1 : 0;
  collect_candidates(warp, *op.wait);
  int count = 0;
  while (choose_messages(count, newer_than, *op.wait)) ++count;
  return count + (op.wait->may_time_out && newer_than < 0 ? 1 : 0);
}

bool execution::step_wait(int warp, const operation& op, int choice, int newer_than) {
  wait_request& request = *op.wait;
  collect_candidates(warp, request);
  const bool ended = choose_messages(choice, newer_than, request);
  const position& who = where(warp);
  for (int i = 0; i < request.num_words; ++i) {
    awaited_word& asked = request.words[static_cast<std::size_t>(i)];
    const int word = shop_.ram.word_at(asked.address, op.bytes);
    const int newest = static_cast<int>(shop_.ram.word(word).messages.size()) - 1;
    if (ended) {
      asked.seen = shop_.ram.load(warp, op, word, chosen_[static_cast<std::size_t>(i)], steps_);
    } else {
      const int oldest = shop_.ram.oldest_readable(warp, shop_.ram.word(word));
      asked.seen = shop_.ram.word(word).messages[static_cast<std::size_t>(oldest)].value;
      shop_.ram.looked(warp, word, steps_);
    }
    record({who, op.what, op.ordering, op.reach, asked.address, 0, asked.seen, 0,
            ended && chosen_[static_cast<std::size_t>(i)] != newest, !ended, request.where.where,
            request.is_phase});
  }
  return ended;
}

void execution::step(int warp, int choice, int newer_than) {
  warp_state& state = warps_[static_cast<std::size_t>(warp)];
  const operation op = state.pending;
  shop_.ram.knowledge(warp).causes.set(warp, static_cast<tick>(steps_ + 1));
  if (op.what == verb::wait) {
    state.answer = step_wait(warp, op, choice, newer_than) ? 1 : 0;
    state.gave_up = state.gave_up || state.answer == 0;
  } else if (is_arrival(op.what)) {
    const int word = pending_word(warp);
    shop_.ram.arrive(warp, op, word, steps_);
    record({state.where, op.what, op.ordering, op.reach, op.address, 0, shop_.ram.mbarrier_word(word),
            op.value});
  } else {
    const int word = pending_word(warp);
    if (op.what == verb::load) {
      const int newest = static_cast<int>(shop_.ram.word(word).messages.size()) - 1;
      state.answer = shop_.ram.load(warp, op, word, newest - choice, steps_);
      record({state.where, op.what, op.ordering, op.reach, op.address, 0, state.answer, 0, choice > 0});
    } else {
      state.answer = shop_.ram.store(warp, op, word, steps_);
      const std::uint64_t shown = is_rmw(op.what) ? state.answer : op.value;
      record({state.where, op.what, op.ordering, op.reach, op.address, 0, shown, op.value});
    }
  }
  shop_.ram.advance(warp, is_write(op.what) && releases(op.ordering));
  step_causes_ = shop_.ram.knowledge(warp).causes;
  ++steps_;
  if (state.copy != nullptr)
    finish_copy_step(warp);
  else
    resume(warp);
  open_barriers();
}

std::uint64_t execution::perform(int warp, const operation& op) {
  warp_state& state = warps_[static_cast<std::size_t>(warp)];
  state.pending = op;
  state.parked_at = static_cast<const std::byte*>(__builtin_frame_address(0));
  const sim::stack_switch home{home_stack_};
  state.home = std::move(state.home).resume();
  return state.answer;
}

bool execution::wait(int warp, order ordering, scope reach, int bytes, wait_request& request) {
  request.may_time_out = limits_.may_time_out && limits_.may_time_out(request.where);
  if (request.num_words == 0 && !request.may_time_out) return true;
  operation op{verb::wait, ordering, reach, bytes, nullptr, 0, &request};
  return perform(warp, op) != 0;
}

bool execution::would_complete(int warp) {
  return shop_.ram.would_complete(pending(warp), pending_word(warp));
}

vector_clock execution::completion_causes(int warp) {
  vector_clock all = causes(warp);
  all.join(shop_.ram.phase_causes(pending_word(warp)));
  return all;
}

bool execution::has_given_up(int warp) const {
  return std::any_of(warps_.begin(), warps_.end(), [&](const warp_state& other) {
    return other.where.rank == where(warp).rank && other.gave_up;
  });
}

void execution::refuse(int warp, const wait_site& where, std::uint64_t seen) {
  warps_[static_cast<std::size_t>(warp)].gave_up = true;
  shop_.found.add(verdict::broken_promise,
                  fmt::format("{} refuses at {}: expected {:#x}, saw {:#x}", name(this->where(warp)),
                              name(where.where), where.expected, seen));
}

void execution::fence(int warp, order ordering, scope reach) {
  shop_.ram.fence(warp, ordering, reach);
  record_on_the_way({where(warp), verb::fence, ordering, reach});
}

void execution::fence_proxy(int warp, verb what) {
  shop_.ram.fence_proxy(warp, what == verb::fence_proxy_async);
  record_on_the_way({where(warp), what});
}

void execution::read(int warp, const void* from, void* to, std::size_t bytes) {
  record_on_the_way({where(warp), verb::read, order::relaxed, scope::system, from, bytes});
  shop_.ram.read(warp, from, to, bytes);
}

void execution::write(int warp, void* to, const void* from, std::size_t bytes) {
  record_on_the_way({where(warp), verb::write, order::relaxed, scope::system, to, bytes});
  shop_.ram.write(warp, to, from, bytes, steps_ - 1);
}

}  // namespace baton::check
