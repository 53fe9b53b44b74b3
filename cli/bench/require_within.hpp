#pragma once
// Numbers that options of benchmarks may be.
namespace baton::cli {

/// @throws invalid_argument  "--repeats: 0 is not from 1 to 10"
void require_within(const char* what, int value, int least, int most);

}  // namespace baton::cli
