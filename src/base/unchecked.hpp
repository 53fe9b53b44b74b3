#pragma once
// BATON_UNCHECKED: of a function that only calls what it is given, in a loop or with a mark of its own set. What is called is
// checked where it stands; to check the few accesses of its own, too, would be most of its code, in each of thousands of
// instances. Not with clang, which looks at a lane's code only once that is part of the function.
#include "base/whole_arrays.hpp"

#if defined(BATON_ADDRESSES_ARE_CHECKED) && !defined(__clang__)
#define BATON_UNCHECKED __attribute__((no_sanitize("address", "undefined")))
#else
#define BATON_UNCHECKED
#endif
