#pragma once
// What the fuzzer does with a text that a benchmark may have written: read it, and hold what was read to its word.
#include <cstdint>
#include <span>
#include <stdexcept>

#include "cli/bench_comparison.hpp"
#include "cli/commands/forecast_measured.hpp"
#include "forecast/question.hpp"
#include "tests/fuzz/read_any_json.hpp"

namespace baton::test {

/// A point that is read is compared with itself, and nothing changed.
inline verdict read_any_points(std::span<const std::uint8_t> input) {
  return verdict_of([&] {
    const cli::measured_points points = cli::parse_points(text_of(input), "fuzz");
    for (const cli::time_change& time : cli::compare_points(points, points).times)
      if (time.is_beyond_spread()) throw std::logic_error{"slower than itself: " + text_of(input)};
  });
}

inline verdict read_any_rounds(std::span<const std::uint8_t> input) {
  return verdict_of([&] {
    for (const cli::measured_round& r : cli::parse_measured_rounds(text_of(input), "fuzz", {}).all)
      if (!(r.us > 0) || !why_not(r.of.asked).empty())
        throw std::logic_error{"accepted, though it cannot be: " + text_of(input)};
  });
}

}  // namespace baton::test
