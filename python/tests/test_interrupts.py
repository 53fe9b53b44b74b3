"""Ctrl-C while a rank waits for one that does not come."""
import os
import signal
import subprocess
import sys
import time

import pytest

SCRIPT = """
import signal, sys, threading, time
import numpy
import baton
from rounds import assert_scaled, local, round_data, scaled_experts

signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts this in the background has it ignored
data = round_data(num_ranks=2)
worlds = baton.World.local(2, device="cpu")
ep = baton.ExpertParallel.create_all(worlds, **data.sizes())
{before}
handler = signal.getsignal(signal.SIGINT)
ep[0].dispatch_async(*data.given(0))
others_run = []
threading.Thread(target=lambda: [others_run.append(time.sleep(0.05)) for _ in range(6)]).start()
print("waiting", flush=True)
began = time.monotonic()
try:
    ep[0].dispatch_wait()
except {expected} as error:
    print("ended by", type(error).__name__, flush=True)
assert time.monotonic() - began < 20 and len(others_run) > 1
assert signal.getsignal(signal.SIGINT) is handler
again = baton.ExpertParallel.create_all(worlds, **data.sizes())
recv = baton.dispatch_all(again, data.tokens, data.topk_idx, data.topk_weights)
for rank, out in enumerate(baton.combine_all(again, [scaled_experts(r) for r in recv])):
    assert_scaled(data, rank, out)
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("as before", flush=True)
"""


def interrupted(before, expected, is_buffered=True):
    path = os.pathsep.join(filter(None, [os.path.dirname(__file__), os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen([sys.executable, "-c", SCRIPT.format(before=before, expected=expected)], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={**os.environ, "PYTHONPATH": path, "BATON_DEADLINE_MS": "60000", "PYTHONUNBUFFERED": "" if is_buffered else "1"})
    assert process.stdout.readline() == "waiting\n", process.stderr.read()
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, problems = process.communicate(timeout=60)
    assert process.returncode == 0, out + problems
    return out, problems


@pytest.mark.parametrize("is_buffered", [True, False])
def test_a_hang_ends_at_ctrl_c_and_says_who_was_waited_for(is_buffered):
    out, problems = interrupted("", "KeyboardInterrupt", is_buffered)  # what flushes standard error runs Python's handlers, too
    assert out == "ended by KeyboardInterrupt\nas before\n"
    assert "baton: interrupted: rank 0 waited" in problems and "at dispatch.ids for rank 1" in problems


def test_where_ctrl_c_does_not_raise_the_hang_ends_as_at_its_deadline():
    out, problems = interrupted("signal.signal(signal.SIGINT, lambda *_: print('handled', flush=True))", "baton.Stuck")
    assert out == "handled\nended by Stuck\nhandled\n" and "baton: interrupted: rank 0 waited" in problems
