#include "cli/commands/product_sizes.hpp"

#include <charconv>
#include <system_error>

namespace baton::cli {

std::vector<int> product_sizes(const std::string& word) {
  std::vector<int> sizes;
  const char *at = word.data(), *end = at + word.size();
  while (true) {
    int value = 0;
    const auto [rest, failed] = std::from_chars(at, end, value);
    if (failed != std::errc{} || value < 1 || value > largest_size) return {};
    sizes.push_back(value);
    if (rest == end) return sizes;
    if (*rest != ',') return {};
    at = rest + 1;
  }
}

}  // namespace baton::cli
