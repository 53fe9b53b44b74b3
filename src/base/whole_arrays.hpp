#pragma once
// Sums over long arrays took nine tenths of the tests' time under AddressSanitizer, which looked at every element. A
// function with BATON_READS_WHOLE_ARRAYS is left alone, and has each array looked at once, as strictly, before it reads. And at
// -Og, as everything is compiled with a sanitizer, g++ keeps every vector in memory: what all these tests compute is
// optimised, the checks of a BATON_QUICK function among it.
#include <cstddef>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BATON_ADDRESSES_ARE_CHECKED
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define BATON_ADDRESSES_ARE_CHECKED
#endif

#if defined(BATON_ADDRESSES_ARE_CHECKED) && !defined(__clang__)
#define BATON_QUICK __attribute__((optimize("O2")))
#else
#define BATON_QUICK
#endif

#if defined(BATON_ADDRESSES_ARE_CHECKED)
#define BATON_READS_WHOLE_ARRAYS BATON_QUICK __attribute__((no_sanitize("address", "undefined")))
extern "C" void __asan_loadN(void* first,
                             std::ptrdiff_t bytes);  // of the sanitizer: reports what must not be read
#else
#define BATON_READS_WHOLE_ARRAYS
#endif

namespace baton {

/// With AddressSanitizer: reports if one of the n values must not be read. Without: nothing.
template <class T>
void look_at([[maybe_unused]] const T* values, [[maybe_unused]] std::size_t n) {
#if defined(BATON_ADDRESSES_ARE_CHECKED)
  __asan_loadN(const_cast<T*>(values), static_cast<std::ptrdiff_t>(n * sizeof(T)));
#endif
}

}  // namespace baton
