#include "checks/exchange_protocols.hpp"

#include "checks/exchange_exploration.hpp"

namespace baton::checks {
namespace {

std::string with_policy(const std::string& name, arrival_policy policy) {
  return name + (policy == arrival_policy::epoch ? ", epoch" : ", sentinel");
}

}  // namespace

std::vector<std::string> exchange_headers() {
  const std::string kernels = "src/kernels/ep/per_expert/", protocol = "src/protocol/";
  return {kernels + "dispatch_async.hpp", kernels + "dispatch_wait.hpp",
          kernels + "combine_async.hpp",  kernels + "combine_wait.hpp",
          protocol + "arrival.hpp",       protocol + "completion.hpp",
          protocol + "gate.hpp",          protocol + "ep_local_sync_counters.hpp"};
}

exploration exchange_holds(const std::string& name, const exchange_setting& e) {
  return {with_policy(name, e.policy),
          [e](const check::bounds& limits) { return check_exchange(e, limits); }};
}

mutant exchange_mutant(const std::string& name, const std::string& breaks,
                       const std::vector<check::verdict>& noticed_as, const exchange_setting& e) {
  return {with_policy(name, e.policy), breaks, noticed_as,
          [e](const check::bounds& limits) { return check_exchange(e, limits); }};
}

}  // namespace baton::checks
