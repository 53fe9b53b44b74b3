// Words, histories and plain accesses. What atomic accesses order: sim/check/edges.cpp.
#include "sim/check/memory.hpp"
#include "exec/site_name.hpp"

#include <fmt/format.h>

#include <cstring>

namespace baton::check {
namespace {

std::uintptr_t number(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p);
}

/// Bit i: the access touches byte i of the cell.
unsigned bytes_of_cell(std::uintptr_t cell, std::uintptr_t first, std::size_t bytes) {
  unsigned all = 0;
  for (std::uintptr_t i = 0; i < shadow::granularity; ++i)
    if (cell + i >= first && cell + i < first + bytes) all |= 1u << i;
  return all;
}

}  // namespace

void memory::reset(std::span<const position> warps) {
  warps_.assign(warps.begin(), warps.end());
  knowledge_.assign(warps.size(), {});
  for (lane_history& l : lanes_) l.reset();
  lanes_.resize(max_participants);
  for (std::size_t i = 0; i < warps.size(); ++i) knowledge_[i].now.set(static_cast<int>(i), 1);
  num_words_ = 0;
  lines_.clear();
  marks_.clear();
  phases_.clear();
  open_phases_.clear();
  proxy_fences_.clear();
  shadow_.reset();
}

void memory::spoil(std::span<std::byte> shared) {
  constexpr int nobodys_value = 0xa5;
  std::memset(shared.data(), nobodys_value, shared.size());
  shadow_.forget(shared);
}

int memory::word_at(const void* address, int bytes) {
  const std::uintptr_t at = number(address);
  const int at_first = shadow_.at(at).word,
            at_last = shadow_.at(at + static_cast<std::uintptr_t>(bytes) - 4).word;
  const int known = at_first >= 0 ? at_first : at_last;
  bool fits = known < 0 || (word(known).address == address && word(known).bytes == bytes);
  for (int part = 4; known < 0 && part < bytes - 4; part += 4)
    fits = fits && shadow_.at(at + static_cast<std::uintptr_t>(part)).word < 0;
  if (at % static_cast<std::uintptr_t>(bytes) != 0 || !fits) {
    found_.add(verdict::mixed_size,
               fmt::format("{} is accessed as an atomic word of {} bytes, but it is {}", names_.of(address),
                           bytes, fits ? "misaligned" : "part of another atomic word"));
  }
  if (known >= 0) return known;
  if (static_cast<std::size_t>(num_words_) == words_.size()) words_.emplace_back();
  atomic_word& w = words_[static_cast<std::size_t>(num_words_)];
  std::vector<message> recycled = std::move(w.messages);
  recycled.clear();
  w = {};
  w.messages = std::move(recycled);
  w.address = static_cast<std::byte*>(const_cast<void*>(address));
  w.bytes = bytes;
  message initial;
  initial.value = newest(w);
  initial.garbage = is_garbage(shadow_.at(at), at);
  w.messages.push_back(initial);
  for (int part = 0; part < bytes; part += 4) {
    shadow_cell& cell = shadow_.at(at + static_cast<std::uintptr_t>(part));
    cell.word = num_words_;
    w.has_plain_accesses = w.has_plain_accesses || cell.writer >= 0 || cell.reads != tick_array{};
  }
  return num_words_++;
}

int memory::oldest_readable(int warp, const atomic_word& w) const {
  const int newest = static_cast<int>(w.messages.size()) - 1;
  if (fault_ == planted_fault::newest_only) return newest;
  if (fault_ == planted_fault::coherence_forgotten) return 0;
  for (int i = newest; i > 0; --i) {
    if (is_known(warp, w.messages[static_cast<std::size_t>(i)])) return i;
  }
  return 0;
}

/// Nothing older than the message can be read: its store happens before, or the read of somebody who saw it.
bool memory::is_known(int warp, const message& m) const {
  const vector_clock& now = knowledge_[static_cast<std::size_t>(warp)].now;
  const bool stored = m.phase >= 0 ? now.includes_all(phases_[static_cast<std::size_t>(m.phase)])
                                   : m.warp < 0 || now.includes(m.warp, m.when);
  return stored || now.includes_any(m.first_reads);
}

void memory::append(atomic_word& w, const message& m) {
  w.messages.push_back(m);
  const void* value = w.is_line() ? static_cast<const void*>(line(m.value)) : &m.value;
  std::memcpy(w.address, value, static_cast<std::size_t>(w.bytes));
}

std::uint64_t memory::newest(const atomic_word& w) {
  return w.is_line() ? version_of(w.address) : w.in_memory();
}

std::uint64_t memory::version_of(const std::byte* line) {
  std::memcpy(lines_.emplace_back().data(), line, line_bytes);
  return lines_.size() - 1;
}

std::uint64_t memory::told(const atomic_word& w, std::uint64_t value) const {
  if (!w.is_line()) return value;
  std::uint64_t flag = 0;
  std::memcpy(&flag, line(value) + line_bytes - sizeof flag, sizeof flag);
  return flag;
}

bool memory::unordered(int warp, int other, tick when) const {
  return other != warp && !known_to_lane(warp).includes(other, when);
}

bool memory::not_over(int warp, int other, tick when) const {
  return unordered(warp, other, when) &&
         !knowledge_[static_cast<std::size_t>(warp)].elsewhere.ended.includes(other, when);
}

void memory::race(int warp, const char* did, int other, const char* other_did, const void* where) {
  if (found_.any()) return;
  found_.add(
      verdict::data_race,
      fmt::format("{} {} {} without order after {} {} it", name(warps_[static_cast<std::size_t>(warp)]), did,
                  names_.of(where), name(warps_[static_cast<std::size_t>(other)]), other_did));
}

/// A plain access after a plain write; the copy engine needs a proxy fence between the two, unless the same block's wrote.
void memory::check_writer(int warp, bool writes, const shadow_cell& cell, const void* where) {
  if (cell.writer < 0) return;
  const char* did = writes ? "writes" : "reads";
  const warp_knowledge& me = knowledge_[static_cast<std::size_t>(warp)];
  const bool is_over = writes && me.elsewhere.replaceable.includes(cell.writer, cell.written);
  if (!is_over && unordered(warp, cell.writer, cell.written))
    return race(warp, did, cell.writer, "wrote", where);
  const bool is_one_engine = of_one_block(warp, cell.writer) || fault_ == planted_fault::engines_are_one;
  const bool is_copied =
      is_engine(cell.writer) || (fault_ == planted_fault::stores_by_engines && is_copy(cell.writer));
  if (!is_engine(warp) || (is_copied && is_one_engine)) return;
  if (is_fenced(warp, cell.writer, cell.written, part_of(where))) return;
  if (found_.any()) return;
  found_.add_unfenced(fmt::format("{} {} {} without a proxy fence after {} wrote it",
                                  name(warps_[static_cast<std::size_t>(warp)]), did, names_.of(where),
                                  name(warps_[static_cast<std::size_t>(cell.writer)])));
}

/// A plain write after plain reads.
void memory::check_readers(int warp, const shadow_cell& cell, const void* where) {
  if (known_to_lane(warp).includes_all(cell.reads, warps_.size())) return;
  for (int q = 0; q < static_cast<int>(warps_.size()); ++q)
    if (not_over(warp, q, cell.reads[static_cast<std::size_t>(q)])) race(warp, "writes", q, "read", where);
}

fenced memory::part_of(const void* address) const {
  return shadow_.is_shared(number(address)) ? fenced::shared : fenced::global;
}

void memory::read_garbage(int warp, const void* where) {
  if (found_.any() || fault_ == planted_fault::garbage_is_zero) return;
  found_.add(verdict::garbage_read,
             fmt::format("{} reads {}, which nobody has written since the kernel began",
                         name(warps_[static_cast<std::size_t>(warp)]), names_.of(where)));
}

bool memory::is_garbage(const shadow_cell& cell, std::uintptr_t at) const {
  if (cell.writer >= 0 || !shadow_.is_shared(at)) return cell.garbage;
  return cell.word < 0 || word(cell.word).messages.back().garbage;
}

void memory::check_issuer(int warp, bool writes, const void* first, std::size_t bytes) {
  constexpr unsigned whole_cell = 0xf;
  for (std::uintptr_t at = number(first); at < number(first) + bytes; at += shadow::granularity)
    check_lanes(warp, writes, shadow_.at(at), at, whole_cell);
}

bool memory::has_written(int participant, const void* first, std::size_t bytes) {
  const tick now = knowledge(participant).now[participant];
  for (std::uintptr_t at = number(first); at < number(first) + bytes; at += shadow::granularity)
    if (shadow_.at(at).writer == participant && shadow_.at(at).written == now) return true;
  return false;
}

void memory::carry_garbage(const void* to, const void* from, std::size_t bytes) {
  if (fault_ == planted_fault::copies_bring_no_garbage) return;
  for (std::size_t at = 0; at < bytes; at += shadow::granularity) {
    const bool garbage = is_garbage(shadow_.at(number(from) + at), number(from) + at);
    shadow_.at(number(to) + at).garbage = garbage;
  }
}

/// The copy engine does not see what a warp stored before a proxy fence, atomically or not.
void memory::check_proxy(int copy, bool writes, int writer, tick written, const atomic_word& w) {
  if (written == 0 || is_copy(writer) || found_.any() || is_fenced(copy, writer, written, part_of(w.address)))
    return;
  found_.add_unfenced(fmt::format("{} {} {} without a proxy fence after {} stored to it",
                                  name(warps_[static_cast<std::size_t>(copy)]), writes ? "writes" : "reads",
                                  names_.of(w.address), name(warps_[static_cast<std::size_t>(writer)])));
}

void memory::check_plain_against_word(int warp, bool writes, int word) {
  const atomic_word& w = words_[static_cast<std::size_t>(word)];
  for (int q = 0; q < static_cast<int>(warps_.size()); ++q) {
    const auto at = static_cast<std::size_t>(q);
    for (std::size_t s = 0; s < num_scopes; ++s) {
      if (unordered(warp, q, w.writes[s][at]))
        race(warp, writes ? "writes" : "reads", q, "stored to", w.address);
      if (is_engine(warp)) check_proxy(warp, writes, q, w.writes[s][at], w);
      if (writes && unordered(warp, q, w.reads[s][at])) race(warp, "writes", q, "loaded", w.address);
    }
  }
}

/// Of an mbarrier: its init is the only plain write that arrivals may come behind.
bool memory::has_met_init(int warp, const shadow_cell& cell) const {
  return knowledge_[static_cast<std::size_t>(warp)].met_inits.includes(cell.writer, cell.written);
}

void memory::check_plain_neighbours(int warp, bool writes, const atomic_word& w, bool is_arrival) {
  if (!w.has_plain_accesses) return;
  for (int part = 0; part < w.bytes; part += 4) {
    const shadow_cell& cell = shadow_.at(number(w.address) + static_cast<std::uintptr_t>(part));
    const bool has_met = is_arrival && cell.writer >= 0 && has_met_init(warp, cell);
    if (cell.writer >= 0 && !has_met && unordered(warp, cell.writer, cell.written)) {
      race(warp, writes ? "stores to" : "loads", cell.writer, "wrote", w.address);
    }
    for (int q = 0; writes && q < static_cast<int>(warps_.size()); ++q) {
      if (unordered(warp, q, cell.reads[static_cast<std::size_t>(q)]))
        race(warp, "stores to", q, "read", w.address);
    }
  }
}

void memory::read(int warp, const void* from, void* to, std::size_t bytes) {
  const tick now = knowledge(warp).now[warp];
  const std::uintptr_t begin = number(from) & ~(shadow::granularity - 1);
  for (std::uintptr_t at = begin; at < number(from) + bytes; at += shadow::granularity) {
    shadow_cell& cell = shadow_.at(at);
    check_writer(warp, false, cell, reinterpret_cast<const void*>(at));
    if (!is_copy(warp) && is_garbage(cell, at)) read_garbage(warp, reinterpret_cast<const void*>(at));
    if (cell.word >= 0) {
      words_[static_cast<std::size_t>(cell.word)].has_plain_accesses = true;
      check_plain_against_word(warp, false, cell.word);
    }
    const unsigned touched = bytes_of_cell(at, number(from), bytes);
    check_lanes(warp, false, cell, at, touched);
    if (fault_ == planted_fault::reads_leave_no_trace) continue;
    cell.reads[static_cast<std::size_t>(warp)] = now;
    mark_lane(warp, false, cell, touched);
  }
  std::memcpy(to, from, bytes);
}

void memory::write(int warp, void* to, const void* from, std::size_t bytes, int step) {
  std::memcpy(to, from, bytes);
  const tick now = knowledge(warp).now[warp];
  const std::uintptr_t begin = number(to) & ~(shadow::granularity - 1);
  int last_word = -1;
  for (std::uintptr_t at = begin; at < number(to) + bytes; at += shadow::granularity) {
    shadow_cell& cell = shadow_.at(at);
    check_writer(warp, true, cell, reinterpret_cast<const void*>(at));
    check_readers(warp, cell, reinterpret_cast<const void*>(at));
    const unsigned touched = bytes_of_cell(at, number(to), bytes);
    check_lanes(warp, true, cell, at, touched);
    mark_lane(warp, true, cell, touched);
    cell.garbage = false;
    cell.writer = warp;
    cell.written = now;
    if (cell.word < 0) continue;
    check_plain_against_word(warp, true, cell.word);
    atomic_word& w = words_[static_cast<std::size_t>(cell.word)];
    w.has_plain_accesses = true;
    if (cell.word == last_word) w.messages.pop_back();  // the other half of the same write
    last_word = cell.word;
    message m;
    m.value = newest(w);
    m.warp = warp;
    m.plain = true;
    m.when = now;
    m.born = step;
    m.causes = knowledge(warp).causes;
    append(w, m);
    if (w.open_phase >= 0) open_phases_[static_cast<std::size_t>(w.open_phase)] = {};
  }
}

}  // namespace baton::check
