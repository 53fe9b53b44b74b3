#pragma once
#include "baton/world.hpp"

namespace baton {

/// Ends what this rank waits for, as its deadline would: whoever synchronises is thrown stuck, which says for whom it waited how
/// long, and communicators are lost as after any stuck. For when nobody wants to wait any more, as at Ctrl-C.
///
/// False: none of this rank's work waits for a peer, and nothing was done. On a GPU waits of up to some 20 us do not count.
///
/// Any thread may call it, while another is in synchronize or in a call that enqueues; a handler of signals may not. Waits for no
/// stream; on the CPU until whoever runs work has nothing to do. Cost: copies 70 KB from the device.
bool give_up(const world& rank);

}  // namespace baton
