#pragma once
// A site: a place where somebody waits or refuses what he finds, by name, as stuck records, traces and the checker show it.
#include <cstddef>
#include <cstdint>

namespace baton {

/// Is its name: up to 24 of a-z, '.' and '_', as "dispatch.arrival", packed so that a kernel can leave it in a record
/// that the host reads. Each protocol names its own beside the code that waits there; no list has them all.
class site {
 public:
  constexpr site() = default;
  template <std::size_t n>
  consteval site(const char (&name)[n]) {  // not explicit: {.where = "dispatch.arrival"}
    static_assert(n - 1 <= max_length, "a site's name has at most 24 characters");
    for (std::size_t i = 0; i + 1 < n; ++i)
      word_[i / word_length] |= code_of(name[i]) << (bits * (i % word_length));
  }

  friend constexpr bool operator==(const site&, const site&) = default;

  /// The nth character of its name, from 0; 0 behind the last.
  constexpr char letter(std::size_t nth) const {
    if (nth >= max_length) return 0;
    const std::uint64_t code = word_[nth / word_length] >> (bits * (nth % word_length)) & 31;
    return code == 0 ? '\0' : alphabet[code];
  }

 private:
  static constexpr std::size_t bits = 5, word_length = 64 / bits, max_length = 2 * word_length;
  static constexpr char alphabet[] = " abcdefghijklmnopqrstuvwxyz._???";

  static consteval std::uint64_t code_of(char c) {
    for (std::uint64_t code = 1; code < 29; ++code)
      if (alphabet[code] == c) return code;
    throw "a site's name is of a-z, '.' and '_'";
  }

  std::uint64_t word_[2] = {};
};

}  // namespace baton
