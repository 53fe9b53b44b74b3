#pragma once
// Memory orders and scopes.
#include <cstdint>

namespace baton {

/// Memory order of an atomic access or a fence, as PTX and C++ mean it. There is no sequential consistency:
/// no protocol here needs it.
enum class order : std::uint8_t { relaxed, acquire, release, acq_rel };

/// Who an ordered access is ordered against: the block, the blocks of its cluster, one device (all blocks of one rank), or all
/// ranks. Each includes those before it.
enum class scope : std::uint8_t { block, cluster, device, system };

}  // namespace baton
