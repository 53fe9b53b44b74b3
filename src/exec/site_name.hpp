#pragma once
// A site's name as text: apart from site.hpp, as every kernel is compiled with that one and none has strings.
#include <string>

#include "exec/site.hpp"

namespace baton {

/// "none" if there is none.
inline std::string name(const site& s) {
  std::string text;
  for (std::size_t i = 0; s.letter(i) != 0; ++i) text += s.letter(i);
  return text.empty() ? "none" : text;
}

}  // namespace baton
