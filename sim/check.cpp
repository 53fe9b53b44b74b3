#include "sim/check.hpp"

#include <fmt/format.h>

#include "sim/check/search.hpp"

namespace baton::check {

result explore(const bounds& limits, const std::function<void(program&)>& build) {
  return search{limits, build}.run();
}

std::string result::summary() const {
  const double busy = seconds > 0 ? seconds : 1e-9;
  return fmt::format(
      "{}{}: {} executions ({} cut as equivalent), at most {} steps each, {:.3f} s, {:.0f} executions/s",
      name(found), complete || found != verdict::none ? "" : " so far, not all schedules covered", executions,
      cut, longest, seconds, static_cast<double>(executions + cut) / busy);
}

}  // namespace baton::check
