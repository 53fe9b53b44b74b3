#pragma once
// What a reader makes of one input.
#include <stdexcept>
#include <string>

namespace baton::test {

enum class verdict { accepted, refused };

/// A file must not be able to fill somebody's screen.
inline void require_short(const std::string& error_text) {
  if (error_text.size() > 2000)
    throw std::logic_error{"an error text of " + std::to_string(error_text.size()) + " bytes"};
}

}  // namespace baton::test
