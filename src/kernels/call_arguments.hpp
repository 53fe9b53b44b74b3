#pragma once
// How calls that take device memory refuse what they are given.
#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "baton/error.hpp"

namespace baton {

/// @throws invalid_argument  the call's name and the text
template <class... Args>
[[noreturn]] void refuse_call(const char* call, fmt::format_string<Args...> text, Args&&... args) {
  throw invalid_argument{fmt::format("{}: {}", call, fmt::format(text, std::forward<Args>(args)...))};
}

inline void require_pointer(const char* call, const char* name, const void* at, std::uintptr_t alignment) {
  if (at == nullptr) refuse_call(call, "{} is null; it must be device memory", name);
  if (reinterpret_cast<std::uintptr_t>(at) % alignment != 0)
    refuse_call(call, "{} is {}; it must be a multiple of {} bytes", name, at, alignment);
}

inline void require_if_given(const char* call, const char* name, const void* at, std::uintptr_t alignment) {
  if (at != nullptr) require_pointer(call, name, at, alignment);
}

}  // namespace baton
