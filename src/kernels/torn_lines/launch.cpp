#include "kernels/torn_lines/launch.hpp"

#include <fmt/format.h>

#include "kernels/launch.hpp"
#include "kernels/torn_lines/kernel.hpp"
#include "kernels/torn_lines/look.hpp"

namespace baton::torn_lines {

std::vector<found> look(const world& w, int p2p_group_size, const effort& asked) {
  return look_with(
      w, asked, [&w](const launch_grid& grid, const params& p) { launch<kernel>(w, grid, p, {}); },
      p2p_group_size);
}

std::string what_tore(const std::vector<found>& of_ranks) {
  std::string text;
  for (std::size_t reader = 0; reader < of_ranks.size(); ++reader) {
    const found& f = of_ranks[reader];
    if (f.torn == 0) continue;
    std::string writers;
    for (std::size_t r = 0; r < of_ranks.size(); ++r)
      if ((f.writers >> r & 1) != 0) writers += fmt::format("{}{}", writers.empty() ? "" : ", ", r);
    text += fmt::format("{}rank {} saw {} of {} lines in part, of rank {}", text.empty() ? "" : "; ", reader,
                        f.torn, f.lines, writers);
  }
  return text;
}

}  // namespace baton::torn_lines
