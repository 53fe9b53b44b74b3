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

/// Ends what threads of this process wait for where ranks meet, as their deadline would: a world that is made from the
/// environment, communicators, windows, and other collective calls of worlds whose ranks meet by themselves. They throw
/// transport_error, which says for whom they waited how long, and their ranks meet no more; other processes are told. A call that
/// waits in several places is at the next one until this is called again; an all_gather that somebody gave waits as it likes.
///
/// Any thread may call it; a handler of signals, too.
void give_up_meetings();

}  // namespace baton
