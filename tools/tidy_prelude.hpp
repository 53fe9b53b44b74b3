#pragma once
// clang 14 calls consteval functions of libstdc++ 13 undefined where they are used in their own class.
#if defined(__clang__) && __clang_major__ < 15
#define consteval constexpr
#endif
// clang 14 lacks the builtin behind std::source_location, so libstdc++ hides it; clang-tidy 14 reads this first.
#include <version>
#if defined(__clang__) && !__has_builtin(__builtin_source_location)
namespace std {  // NOLINT
struct source_location {
  static constexpr source_location current() noexcept { return {}; }
  constexpr unsigned line() const noexcept { return 0; }
  constexpr unsigned column() const noexcept { return 0; }
  constexpr const char* file_name() const noexcept { return ""; }
  constexpr const char* function_name() const noexcept { return ""; }
};
}  // namespace std
#endif
