// Why the last step of a counterexample races with an earlier one: which edge is not there.
#include <fmt/format.h>

#include <cstdint>
#include <iterator>

#include "sim/check/trace.hpp"

namespace baton::check {
namespace {

using iterator = std::vector<event>::const_iterator;

bool is_plain(const event& e) {
  return e.what == verb::read || e.what == verb::write;
}
bool changes(const event& e) {
  return e.what == verb::write || is_write(e.what);
}
bool sees(const event& e) {
  return e.what == verb::load || e.what == verb::wait || is_rmw(e.what);
}

bool touches(const event& e) {
  return is_plain(e) || sees(e) || is_write(e.what);
}

std::uintptr_t first_byte(const event& e) {
  return reinterpret_cast<std::uintptr_t>(e.address);
}
std::uintptr_t end_byte(const event& e) {
  constexpr std::size_t largest_word = 8;
  return first_byte(e) + (e.bytes != 0 ? e.bytes : largest_word);
}

bool conflict(const event& a, const event& b) {
  return touches(a) && touches(b) && a.who != b.who && (changes(a) || changes(b)) &&
         (is_plain(a) || is_plain(b)) && first_byte(a) < end_byte(b) && first_byte(b) < end_byte(a);
}

std::string told(const event& e, const name_table& names) {
  return fmt::format("{}'s {}.{}.{} of {}", name(e.who), name(e.what), name(e.ordering), name(e.reach),
                     names.of(e.address));
}

const char* why_no_edge(const event& from, const event& to) {
  if (!releases(from.ordering)) return "the first does not release";
  if (!acquires(to.ordering)) return "the second does not acquire";
  if (!reaches(from.who, from.reach, to.who) || !reaches(to.who, to.reach, from.who))
    return "they are not in each other's scope";
  return "the second need not have seen the first";
}

/// What the one sees the other knows: a copy begins with what its issuer knew.
bool hears(const position& one, const position& other) {
  return one == other || (one.copy == 0 && other.copy > 0 && one.rank == other.rank &&
                          one.block == other.block && one.warp == other.warp);
}

/// The last change by `from` in [first, until) that a step by `to` before `last` may have seen, and that step.
struct sighting {
  iterator change, look;
};
sighting last_sighting(iterator first, iterator until, iterator last, const position& from,
                       const position& to) {
  sighting found{last, last};
  for (iterator change = first; change != until; ++change) {
    if (change->who != from || !is_write(change->what)) continue;
    for (iterator look = std::next(change); look != last; ++look)
      if (hears(look->who, to) && sees(*look) && look->address == change->address) found = {change, look};
  }
  return found;
}

}  // namespace

std::string missing_edge(const std::vector<event>& trace, const name_table& names) {
  if (trace.empty()) return {};
  const iterator later = std::prev(trace.end());
  iterator earlier = later;
  do {
    if (earlier == trace.begin()) return {};
    --earlier;
  } while (!conflict(*earlier, *later));
  const position &from = earlier->who, &to = later->who;
  const std::string head = fmt::format("missing: an edge from {}'s {} to {}'s {}", name(from),
                                       name(earlier->what), name(to), name(later->what));
  if (const sighting after = last_sighting(std::next(earlier), later, later, from, to); after.change != later)
    return fmt::format("{}.\n      {} and {} make none: {}\n", head, told(*after.change, names),
                       told(*after.look, names), why_no_edge(*after.change, *after.look));
  if (const sighting before = last_sighting(trace.begin(), earlier, later, from, to); before.change != later)
    return fmt::format("{}.\n      {} came before what it would have to cover\n", head,
                       told(*before.change, names));
  return fmt::format("{}.\n      {} has seen nothing that {} did\n", head, name(to), name(from));
}

}  // namespace baton::check
