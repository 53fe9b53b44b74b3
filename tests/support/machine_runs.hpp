#pragma once
// A kernel on a CPU machine of one rank, with any context that has its verbs.
#include "sim/context.hpp"
#include "sim/machine.hpp"

namespace baton::test {

/// Until it has ended, and what it wrote has reached memory.
template <class Kernel, class Context = sim::context, class Params>
void run_on_machine(const sim::options& how, const sim::grid& grid, const Params& p) {
  sim::machine machine{1, how};
  machine.launch(0, grid, [&](sim::context& base) {
    Context x{base};
    Kernel::run(x, p);
  });
  machine.run(0);
  machine.host(0, [] {});
  machine.run(0);
}

}  // namespace baton::test
