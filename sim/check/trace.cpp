#include "sim/check/trace.hpp"

#include <fmt/format.h>

#include <iterator>

#include "exec/line.hpp"
#include "exec/site_name.hpp"

namespace baton::check {
namespace {

bool continues(const event& a, const event& b) {
  const bool plain = b.what == verb::read || b.what == verb::write;
  return plain && a.what == b.what && a.who == b.who &&
         static_cast<const std::byte*>(a.address) + a.bytes == b.address;
}

std::string describe(const event& e, const name_table& names) {
  const std::string target = e.address == nullptr ? std::string{} : names.of(e.address);
  const bool is_line = e.bytes == line_bytes && (e.what == verb::store || e.what == verb::wait);
  const std::string how = is_line ? fmt::format("{}_line", name(e.what))
                                  : fmt::format("{}.{}.{}", name(e.what), name(e.ordering), name(e.reach));
  switch (e.what) {
    case verb::read:
    case verb::write:
      return fmt::format("{:<26} {} ({} bytes)", name(e.what), target, e.bytes);
    case verb::load:
      return fmt::format("{:<26} {} -> {:#x}{}", how, target, e.value,
                         e.stale ? "  (not the newest value)" : "");
    case verb::store:
      return fmt::format("{:<26} {} = {:#x}", how, target, e.value);
    case verb::fetch_add:
    case verb::fetch_min:
    case verb::fetch_or:
    case verb::exchange:
      return fmt::format("{:<26} {}, {:#x} -> {:#x}", how, target, e.operand, e.value);
    case verb::wait:
      if (e.is_phase)
        return fmt::format("{:<26} {} at {}: {}", how, target, name(e.where),
                           e.timed_out ? "gave up" : phase_text(e.value) + (e.stale ? ", as seen then" : ""));
      if (e.timed_out) return fmt::format("{:<26} {} at {}: gave up", how, target, name(e.where));
      return fmt::format("{:<26} {} at {}: saw {:#x}{}", how, target, name(e.where), e.value,
                         e.stale ? "  (not the newest value)" : "");
    case verb::arrive:
    case verb::arrive_expect:
    case verb::count_bytes:
      return fmt::format("{:<26} {}, {}  ({})", how, target, e.operand, phase_text(e.value));
    case verb::bulk_load:
    case verb::bulk_store:
      return fmt::format("{:<26} {} ({} bytes)", name(e.what), target, e.bytes);
    case verb::copied_out:
      return "copied_out                 has read its source";
    case verb::fence:
      return how;
    default:
      return name(e.what);
  }
}

}  // namespace

std::string readable(const std::vector<event>& trace, const name_table& names) {
  std::vector<event> joined;
  for (const event& e : trace) {
    if (!joined.empty() && continues(joined.back(), e))
      joined.back().bytes += e.bytes;
    else
      joined.push_back(e);
  }
  std::string text;
  int line = 0;
  for (const event& e : joined) {
    fmt::format_to(std::back_inserter(text), "{:>4}  {:<24} {}\n", ++line, name(e.who), describe(e, names));
  }
  return text;
}

}  // namespace baton::check
