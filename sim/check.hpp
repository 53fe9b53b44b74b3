#pragma once
// check: explores every schedule of a small program that uses the exec concept, and everything each load may
// return, up to a bound. What is modelled and what is not: docs/checker.md.
//
//   const check::result r = check::explore({}, [](check::program& p) {
//     auto* flag = p.allocate<std::uint64_t>(1, "flag");
//     auto* data = p.allocate<std::uint32_t>(1, "data");
//     p.spawn(0, 0, 0, [=](check::context& x) {
//       x.write(data, 42u);
//       x.store<order::release, scope::system>(flag, 1);
//     });
//     p.spawn(1, 0, 0, [=, &p](check::context& x) {
//       if (x.load<order::acquire, scope::system>(flag) == 1) p.require(x.read(data) == 42, "data arrived");
//     });
//   });
//   r.holds(); r.summary(); r.counterexample;
//
// `build` runs before every execution and must renew whatever the warps change; allocate() does.
#include <functional>

#include "sim/check/bounds.hpp"
#include "sim/check/context.hpp"
#include "sim/check/program.hpp"

namespace baton::check {

result explore(const bounds& limits, const std::function<void(program&)>& build);

}  // namespace baton::check
