#pragma once
// Kernels of the library on the CPU machine, for who runs them on a machine of his own: their code is the library's.

namespace baton {
namespace sim {
class context;
}

/// Kernel::run, of what the library launches (kernels/launch.hpp): nobody else compiles it.
template <class Kernel, class Params>
void run_on_cpu(sim::context& x, const Params& p);

}  // namespace baton
