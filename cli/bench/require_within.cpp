#include "cli/bench/require_within.hpp"

#include <fmt/format.h>

#include "baton/error.hpp"

namespace baton::cli {

void require_within(const char* what, int value, int least, int most) {
  if (value < least || value > most)
    throw invalid_argument{fmt::format("{}: {} is not from {} to {}", what, value, least, most)};
}

}  // namespace baton::cli
