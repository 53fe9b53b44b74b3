// The network between ranks: what is sent, when it goes on, and what a fence holds back.
#include "sim/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "baton/error.hpp"
#include "exec/exec.hpp"
#include "sim/alignment.hpp"
#include "sim/context.hpp"
#include "sim/machine_state.hpp"

namespace baton::sim {
namespace {

/// Of whole vec16s, as the verb's contract has it.
void require_vec16s(const std::byte* to, const std::byte* from, int bytes) {
  require_aligned(to, sizeof(vec16));
  require_aligned(from, sizeof(vec16));
  if (bytes < 0 || bytes % static_cast<int>(sizeof(vec16)) != 0)
    throw error{fmt::format("a put of {} bytes: expected a multiple of {}", bytes, sizeof(vec16))};
}

}  // namespace

void context::put(int rank, std::byte* to, const std::byte* from, int bytes) {
  send_put("put", rank, to, from, bytes, 0);
}

void context::send_put(const char* verb, int rank, std::byte* to, const std::byte* from, int bytes,
                       std::uint64_t pair) {
  require_whole(verb);
  require_vec16s(to, from, bytes);
  scheduling_point();
  release(scope::system);  // the warp's own writes are what is read
  machine_.send({.from = rank_,
                 .to = rank,
                 .target = to,
                 .source = from,
                 .bytes = static_cast<std::size_t>(bytes),
                 .pair = pair});
}

void context::fence_puts() {
  if (machine_.fault_of(rank_, fault::kind::forgets_fences) == nullptr) ++machine_.of(rank_).fences;
}

void context::signal(int rank, std::uint64_t* word, std::uint64_t value) {
  scheduling_point();
  send_word({rank, word, value}, 0);
}

void context::send_word(const far_word& word, std::uint64_t pair) {
  machine_.send({.from = rank_,
                 .to = word.rank,
                 .target = reinterpret_cast<std::byte*>(word.at),
                 .bytes = sizeof word.value,
                 .word = flipped(word.at, word.value),
                 .pair = pair});
  after_signal();
}

void context::put_and_signal(const signalled_put& one) {
  const bool forgets = machine_.fault_of(rank_, fault::kind::forgets_fences) != nullptr;
  const std::uint64_t pair = machine_.sent.next_pair();
  send_put("put_and_signal", one.word.rank, one.to, one.from, one.bytes, pair);
  send_word(one.word, forgets ? 0 : pair);
}

bool machine::state::is_cut_off(int rank) const {
  const fault* f = fault_of(rank, fault::kind::is_cut_off);
  return f != nullptr && ranks[static_cast<std::size_t>(rank)].steps >= f->step;
}

/// At once in the product's schedule; else a put is in up to four parts.
void machine::state::send(network_message whole) {
  if (is_cut_off(whole.from) || is_cut_off(whole.to)) return;
  whole.fences = of(whole.from).fences;
  network_traffic& given = traffic_of(whole.from, whole.to);
  ++(whole.source == nullptr ? given.signals : given.puts);
  if (whole.source != nullptr) given.bytes += whole.bytes;
  const bool at_once = opts.order == schedule::round_robin;
  const std::size_t most = at_once || whole.source == nullptr ? 1 : 1 + random() % 4;
  for (std::size_t i = 0; i < most && whole.bytes > 0; ++i) {
    network_message part = whole;
    const std::size_t units = whole.bytes / 16;
    if (i + 1 < most && units > 0) part.bytes = (1 + random() % units) * 16;
    if (!at_once) part.priority = lowest_priority + random() % (1u << 20);
    whole.target += part.bytes;
    if (whole.source != nullptr) whole.source += part.bytes;
    whole.bytes -= part.bytes;
    sent.send(std::move(part));
  }
  if (at_once) settle_network();
}

bool machine::state::network_goes_next(const warp_state* w) {
  if (sent.is_quiet()) return false;
  if (w == nullptr) return true;
  if (opts.order == schedule::random) return random() % 3 == 0;
  for (std::size_t i = 0; i < sent.size(); ++i)
    if (sent.at(i).priority > w->priority && sent.can_go_on(i)) return true;
  return false;
}

/// The oldest can always go on.
void machine::state::progress_network() {
  std::size_t next_one = 0;
  if (opts.order == schedule::random) next_one = random() % sent.size();
  for (std::size_t i = 0; opts.order == schedule::priority && i < sent.size(); ++i)
    if (sent.can_go_on(i) && sent.at(i).priority > sent.at(next_one).priority) next_one = i;
  advance_message(sent.can_go_on(next_one) ? next_one : 0);
}

void machine::state::advance_message(std::size_t i) {
  network_message& m = sent.at(i);
  store_list& global = of(m.from).stores;
  if (m.source != nullptr && !m.is_read) {
    global.reveal(m.source, m.bytes);
    m.held.assign(m.source, m.source + m.bytes);
    m.is_read = true;
    return;
  }
  const network_message arrived = sent.take(i);
  global.reveal(arrived.target, arrived.bytes);  // older stores do not come after it
  if (arrived.source != nullptr)
    std::copy(arrived.held.begin(), arrived.held.end(), arrived.target);
  else
    std::atomic_ref<std::uint64_t>{*reinterpret_cast<std::uint64_t*>(arrived.target)}.store(
        arrived.word, std::memory_order_release);
  ++version;
}

void machine::state::settle_network() {
  while (!sent.is_quiet()) advance_message(0);
}

}  // namespace baton::sim
