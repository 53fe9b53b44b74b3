"""What a rank that never comes looks like: rank 1 makes everything and then does not dispatch. Nobody hangs; rank 0 says for whom it
waited, where in the protocol, and what it saw. While it waits another thread can ask for the same."""
import os
import threading
import time

os.environ.setdefault("BATON_DEADLINE_MS", "1000")  # of every wait; 30 seconds if nobody says
import ml_dtypes
import numpy

import baton

ep = baton.ExpertParallel.create_all(baton.World.local(2, device="cpu"), num_experts=8, top_k=2, hidden=64, num_max_tokens_per_rank=4)
ep[0].dispatch_async(numpy.ones((4, 64), ml_dtypes.bfloat16), numpy.zeros((4, 2), numpy.int32) + [0, 7])


def look():
    time.sleep(0.3)
    for wait in ep[0].dump_state()["waits"]:
        print("meanwhile:", wait)


looking = threading.Thread(target=look)
looking.start()
try:
    ep[0].dispatch_wait()
except baton.Stuck as stuck:
    print(f"rank {stuck.rank} waited {stuck.waited_ns / 1e9:.1f} s for rank {stuck.peer} in {stuck.phase}")
    print(f"it expected {stuck.expected:#x} and saw {stuck.seen:#x}")
looking.join()
