#pragma once
// The exchange's explorations and mutants as data: what its three checks have in common.
#include <string>
#include <vector>

#include "checks/all.hpp"
#include "checks/exchange_setting.hpp"

namespace baton::checks {

/// The four kernels; then the protocols they are made of.
std::vector<std::string> exchange_headers();

/// Payload waits for the word that says that it is there.
inline constexpr planted_bug payload_after_word{
    .what = verbs::write, .how = change::late, .cell = "messages, replies", .until = verbs::release_store};

/// All append the arrival policy to the name.
exploration exchange_holds(const std::string& name, const exchange_setting& e);
exploration collection_holds(const std::string& name, arrival_policy policy);
mutant exchange_mutant(const std::string& name, const std::string& breaks,
                       const std::vector<check::verdict>& noticed_as, const exchange_setting& e);

}  // namespace baton::checks
