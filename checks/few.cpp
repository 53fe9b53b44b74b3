// The protocols of the program in a build with a sanitizer: three quick ones, which the tests of `baton check` use. To compile
// all of them there takes a tenth of its time, and no test explores them with a sanitizer (docs/decisions/0021).
#include "checks/all.hpp"

namespace baton::checks {

const std::vector<protocol_check>& all_protocol_checks() {
  static const std::vector<protocol_check> few{arrival_check(), gate_check(), staged_pipeline_check()};
  return few;
}

}  // namespace baton::checks
