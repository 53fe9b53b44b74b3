// The steps of an execution. Its beginning, barriers and end: sim/check/lifecycle.cpp.
#include "sim/check/execution.hpp"
#include "exec/site_name.hpp"

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
    if (is_barrier(state.pending.what) || !runs(w)) continue;
    bool enabled = true, certain = true;
    if (wait_request* request = state.pending.wait; request != nullptr && request->num_lines > 0) {
      const bool gives_up = can_time_out(w, *request, -1);  // looks at the lines
      enabled = gives_up || !request->look.ends.empty();
      certain = gives_up || request->look.certain;
    } else if (request != nullptr && !can_time_out(w, *request, -1)) {
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

/// Some word has a value to be read that does not end the wait; with newer_than >= 0: for the first time since that step.
bool execution::can_time_out(int warp, wait_request& request, int newer_than) {
  if (request.num_lines > 0) look_at_lines(warp, request);
  if (!request.may_time_out) return false;
  if (limits_.fault == planted_fault::satisfied_waits_time_out) return newer_than < 0;
  if (request.num_lines > 0)
    return request.look.refuses && (newer_than < 0 || request.look.oldest_refusal >= newer_than);
  bool could = false, can = false;
  for (int i = 0; i < request.num_words; ++i) {
    const awaited_word& asked = request.words[static_cast<std::size_t>(i)];
    const atomic_word& word = shop_.ram.word(shop_.ram.word_at(asked.address, pending(warp).bytes));
    for (int m = shop_.ram.oldest_readable(warp, word); m < static_cast<int>(word.messages.size()); ++m) {
      const message& seen = word.messages[static_cast<std::size_t>(m)];
      if (request.holds(request.predicate, asked.lane, seen.value)) continue;
      can = true;
      could = could || seen.born < newer_than;
    }
  }
  return can && !could;
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
      const message& seen = word.messages[static_cast<std::size_t>(m)];
      if (seen.garbage || request.holds(request.predicate, asked.lane, seen.value)) found.push_back(m);
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
  if (op.what == verb::either) return newer_than < 0 ? 2 : 0;
  if (op.what != verb::wait) return newer_than < 0 ? 1 : 0;
  if (op.wait->num_lines > 0) {
    const int gives_up = can_time_out(warp, *op.wait, newer_than) ? 1 : 0;
    const auto& ends = op.wait->look.ends;
    return gives_up + static_cast<int>(std::count_if(ends.begin(), ends.end(), [&](const auto& shown) {
             return is_new(*op.wait, shown, newer_than);
           }));
  }
  collect_candidates(warp, *op.wait);
  int count = 0;
  while (choose_messages(count, newer_than, *op.wait)) ++count;
  return count + (can_time_out(warp, *op.wait, newer_than) ? 1 : 0);
}

bool execution::step_wait(int warp, const operation& op, int choice, int newer_than) {
  wait_request& request = *op.wait;
  if (request.num_lines > 0) return step_lines(warp, request, choice, newer_than);
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
  if (op.what == verb::none || is_barrier(op.what)) {
    shop_.found.add(
        verdict::not_reproducible,
        fmt::format("{} had a step to take, and has none when the same schedule runs again: build "
                    "must renew all state that the warps change",
                    name(state.where)));
    return;
  }
  on_the_way_ = 0;
  shop_.ram.knowledge(warp).causes.set(warp, static_cast<tick>(steps_ + 1));
  if (op.what == verb::wait) {
    state.answer = step_wait(warp, op, choice, newer_than) ? 1 : 0;
    state.gave_up = state.gave_up || state.answer == 0;
  } else if (op.what == verb::either) {
    state.answer = static_cast<std::uint64_t>(choice);
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
      const std::uint64_t shown =
          is_rmw(op.what) ? shop_.ram.word(word).messages.rbegin()[1].value : op.value;
      const atomic_word& stored = shop_.ram.word(word);
      record({state.where, op.what, op.ordering, op.reach, op.address, stored.is_line() ? line_bytes : 0u,
              shop_.ram.told(stored, shown), op.value});
    }
  }
  shop_.ram.advance(warp, is_write(op.what) && releases(op.ordering));
  step_causes_ = shop_.ram.knowledge(warp).causes;
  ++steps_;
  if (state.copy != nullptr)
    finish_copy_step(warp);
  else
    resume(warp);
  go_on_without_steps();
}

std::uint64_t execution::perform(int warp, const operation& op) {
  if (looking_ != nullptr) return load_in_predicate(op);
  if (has_word(op.what) && !op.from_outside)
    require_memory(warp, op.address, static_cast<std::size_t>(op.bytes));
  warp_state& state = warps_[static_cast<std::size_t>(warp)];
  state.counted_stores = -1;
  state.pending = op;
  const sim::stack_switch home{home_stack_};
  state.home = std::move(state.home).resume();
  return state.answer;
}

bool execution::wait(int warp, order ordering, scope reach, int bytes, wait_request& request) {
  if (request.num_words == 0) return true;
  for (int i = 0; i < request.num_words; ++i)
    require_memory(warp, request.words[static_cast<std::size_t>(i)].address, static_cast<std::size_t>(bytes));
  return await(warp, {verb::wait, ordering, reach, bytes, nullptr, 0, &request});
}

bool execution::await(int warp, const operation& op) {
  wait_request& request = *op.wait;
  request.may_time_out = limits_.may_time_out && limits_.may_time_out(request.where);
  if (perform(warp, op) != 0) {
    if (acquires(op.ordering)) sync_warp(warp);  // as on the GPU
    return true;
  }
  if (request.may_time_out && limits_.fault != planted_fault::nobody_hears_of_time_outs)
    perform(warp, {verb::fetch_add, order::relaxed, scope::system, 4, abort_word(warp), 1});
  return false;
}

bool execution::has_given_up(int warp) {
  if (!limits_.may_time_out) return false;
  return perform(warp, {verb::load, order::relaxed, scope::system, 4, abort_word(warp)}) != 0;
}

bool execution::would_complete(int warp) {
  return shop_.ram.would_complete(pending(warp), pending_word(warp));
}

vector_clock execution::completion_causes(int warp) {
  vector_clock all = causes(warp);
  all.join(shop_.ram.phase_causes(pending_word(warp)));
  return all;
}

void execution::refuse(int warp, const wait_site& where, std::uint64_t seen) {
  warps_[static_cast<std::size_t>(warp)].gave_up = true;
  shop_.found.add(verdict::broken_promise,
                  fmt::format("{} refuses at {}: expected {:#x}, saw {:#x}", name(this->where(warp)),
                              name(where.where), where.expected, seen));
}

}  // namespace baton::check
