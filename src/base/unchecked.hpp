#pragma once
// BATON_UNCHECKED: of a function that only calls what it is given, in a loop or with a mark of its own set. What is called is
// checked where it stands. To check the few accesses of its own, too, was most of its code with a sanitizer, of thousands.

#if defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
#define BATON_UNCHECKED __attribute__((no_sanitize("address", "undefined")))
#else
#define BATON_UNCHECKED
#endif
