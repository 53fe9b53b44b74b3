#include "sim/check/names.hpp"

#include <fmt/format.h>

#include <utility>

namespace baton::check {

void name_table::add(const void* first, std::size_t element_bytes, std::size_t count, std::string name) {
  ranges_.push_back({reinterpret_cast<std::uintptr_t>(first), element_bytes, count, std::move(name)});
}

std::string name_table::of(const void* address) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (auto r = ranges_.rbegin(); r != ranges_.rend(); ++r) {  // the latest name wins
    if (at < r->first || at >= r->first + r->element_bytes * r->count) continue;
    const std::size_t index = (at - r->first) / r->element_bytes, rest = (at - r->first) % r->element_bytes;
    std::string text = r->count == 1 ? r->name : fmt::format("{}[{}]", r->name, index);
    if (rest != 0) text += fmt::format(" + {} bytes", rest);
    return text;
  }
  return fmt::format("{:#x}", at);
}

std::string name(const position& p) {
  return fmt::format("rank {} block {} warp {}", p.rank, p.block, p.warp);
}

const char* name(verb v) {
  switch (v) {
    case verb::load:
      return "load";
    case verb::store:
      return "store";
    case verb::fetch_add:
      return "fetch_add";
    case verb::fetch_min:
      return "fetch_min";
    case verb::exchange:
      return "exchange";
    case verb::wait:
      return "wait";
    case verb::sync_block:
      return "sync_block";
    case verb::next_kernel:
      return "next_kernel";
    case verb::fence:
      return "fence";
    case verb::read:
      return "read";
    case verb::write:
      return "write";
    default:
      return "none";
  }
}

const char* name(order o) {
  switch (o) {
    case order::relaxed:
      return "relaxed";
    case order::acquire:
      return "acquire";
    case order::release:
      return "release";
    default:
      return "acq_rel";
  }
}

const char* name(scope s) {
  switch (s) {
    case scope::block:
      return "block";
    case scope::device:
      return "device";
    default:
      return "system";
  }
}

}  // namespace baton::check
