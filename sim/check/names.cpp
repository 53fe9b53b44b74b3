#include "sim/check/names.hpp"

#include <fmt/format.h>

#include <utility>

#include "sim/mbarrier_model.hpp"

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
  const char* what = p.is_store ? "stores" : p.is_product ? "product" : "copy";
  if (p.asked_by >= 0)
    return fmt::format("{} {} into rank {} block {}, of block {} warp {}", what, p.copy, p.rank, p.block,
                       p.asked_by, p.warp);
  if (p.copy > 0)
    return fmt::format("{} {} of rank {} block {} warp {}", what, p.copy, p.rank, p.block, p.warp);
  return fmt::format("rank {} block {} warp {}", p.rank, p.block, p.warp);
}

std::string phase_text(std::uint64_t mbarrier_word) {
  const auto s = sim::mbarrier_state::of(mbarrier_word);
  if (s.expected == 0) return "not initialised";
  std::string text =
      fmt::format("{} phase open, {} of {} arrivals", s.phase == 0 ? "even" : "odd", s.pending, s.expected);
  if (s.bytes != 0) text += fmt::format(" and {} bytes", s.bytes);
  return text + " to come";
}

const char* name(verb v) {
  switch (v) {
    case verb::load:
      return "load";
    case verb::store:
      return "store";
    case verb::fetch_add:
      return "fetch_add";
    case verb::either:
      return "either";
    case verb::count_to:
      return "count_to";
    case verb::fetch_min:
      return "fetch_min";
    case verb::fetch_or:
      return "fetch_or";
    case verb::exchange:
      return "exchange";
    case verb::arrive:
      return "arrive";
    case verb::arrive_expect:
      return "arrive_expect";
    case verb::count_bytes:
      return "count_bytes";
    case verb::copied_out:
      return "copied_out";
    case verb::wait:
      return "wait";
    case verb::sync_block:
      return "sync_block";
    case verb::sync_cluster:
      return "sync_cluster";
    case verb::meet_cluster:
      return "meet_cluster";
    case verb::await_dependencies:
      return "await_dependencies";
    case verb::next_kernel:
      return "next_kernel";
    case verb::fence:
      return "fence";
    case verb::fence_proxy_async:
      return "fence_proxy_async";
    case verb::fence_proxy_async_global:
      return "fence_proxy_async_global";
    case verb::fence_mbarrier_init:
      return "fence_mbarrier_init";
    case verb::bulk_load:
      return "bulk_load";
    case verb::bulk_store:
      return "bulk_store";
    case verb::start_product:
      return "start_product";
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
    case scope::cluster:
      return "cluster";
    case scope::device:
      return "device";
    default:
      return "system";
  }
}

}  // namespace baton::check
