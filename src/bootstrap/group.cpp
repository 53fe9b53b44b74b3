#include "bootstrap/group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>

#include "baton/error.hpp"

namespace baton::bootstrap {
namespace {

enum class outcome : std::uint32_t { fine, invalid, not_supported, no_memory, cuda, other };

struct report {
  outcome what = outcome::fine;
  std::uint64_t needed = 0, free = 0;
  char text[488] = {};
};

report describe(const std::exception_ptr& failure) {
  report r;
  std::string text;
  try {
    std::rethrow_exception(failure);
  } catch (const out_of_memory& e) {
    r.what = outcome::no_memory;
    r.needed = e.needed;
    r.free = e.free;
    text = e.what();
  } catch (const invalid_argument& e) {
    r.what = outcome::invalid;
    text = e.what();
  } catch (const unsupported& e) {
    r.what = outcome::not_supported;
    text = e.what();
  } catch (const cuda_error& e) {
    r.what = outcome::cuda;
    text = e.what();
  } catch (const std::exception& e) {
    r.what = outcome::other;
    text = e.what();
  }
  std::memcpy(r.text, text.data(), std::min(text.size(), sizeof r.text - 1));
  return r;
}

[[noreturn]] void throw_report(const report& r, std::size_t rank) {
  const std::string_view said{r.text, ::strnlen(r.text, sizeof r.text)};  // whatever brought it
  const std::string text = fmt::format("rank {}: {}", rank, said);
  switch (r.what) {
    case outcome::no_memory:
      throw out_of_memory{text, r.needed, r.free};
    case outcome::invalid:
      throw invalid_argument{text};
    case outcome::not_supported:
      throw unsupported{text};
    case outcome::cuda:
      throw cuda_error{text};
    default:
      throw transport_error{text};
  }
}

}  // namespace

void gather_bytes(const group& g, const void* mine, void* all, std::size_t bytes) {
  if (g.all_gather)
    g.all_gather(mine, all, bytes);
  else if (g.size == 1 && bytes > 0)
    std::memcpy(all, mine, bytes);
  else if (g.size != 1)
    throw invalid_argument{fmt::format("world_config::all_gather is empty, but size is {}", g.size)};
}

void together(const group& g, const std::function<void()>& step) {
  std::exception_ptr failure;
  try {
    step();
  } catch (const std::exception&) {
    failure = std::current_exception();
  }
  const std::vector<report> all = gather(g, failure ? describe(failure) : report{});
  if (failure) std::rethrow_exception(failure);
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r].what != outcome::fine) throw_report(all[r], r);
}

}  // namespace baton::bootstrap
