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


AT_ANY_TIME = """
import random, signal, threading, time
import baton
from rounds import local, round_data

signal.signal(signal.SIGINT, signal.default_int_handler)
data = round_data(num_ranks=2, hidden=128, num_tokens=2)
worlds = baton.World.local(2, device="cpu")
began = time.monotonic()
for each in range(60):
    ep = baton.ExpertParallel.create_all(worlds, **data.sizes())
    ep[0].dispatch_async(*data.given(0))
    interrupt = threading.Timer(each * 0.0005, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    try:
        interrupt.start()
        ep[0].dispatch_wait()
    except KeyboardInterrupt:
        pass
    interrupt.join()
print(time.monotonic() - began)
"""


MEETINGS = """
import signal, time
import baton

signal.signal(signal.SIGINT, signal.default_int_handler)
sizes = dict(num_experts=4, top_k=2, hidden=128, num_max_tokens_per_rank=8)
{before}
handler = signal.getsignal(signal.SIGINT)
print("waiting", flush=True)
began = time.monotonic()
try:
    {meeting}
except KeyboardInterrupt:
    print("ended", flush=True)
assert time.monotonic() - began < 20 and signal.getsignal(signal.SIGINT) is handler
"""


def interrupted(before, expected, is_buffered=True):
    return interrupted_script(SCRIPT.format(before=before, expected=expected), PYTHONUNBUFFERED="" if is_buffered else "1")


def interrupted_script(script, **variables):
    path = os.pathsep.join(filter(None, [os.path.dirname(__file__), os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen([sys.executable, "-c", script], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={**os.environ, "PYTHONPATH": path, "BATON_DEADLINE_MS": "60000", **variables})
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


def test_a_hang_ends_at_a_ctrl_c_of_its_first_moment():
    path = os.pathsep.join(filter(None, [os.path.dirname(__file__), os.environ.get("PYTHONPATH")]))
    said = subprocess.run([sys.executable, "-c", AT_ANY_TIME], text=True, capture_output=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": path, "BATON_DEADLINE_MS": "60000"})
    assert said.returncode == 0 and float(said.stdout) < 40, said


def test_where_ctrl_c_does_not_raise_the_hang_ends_as_at_its_deadline():
    out, problems = interrupted("signal.signal(signal.SIGINT, lambda *_: print('handled', flush=True))", "baton.Stuck")
    assert out == "handled\nended by Stuck\nhandled\n" and "baton: interrupted: rank 0 waited" in problems


@pytest.mark.parametrize("rank, others", [(0, "rank 1 to join at"), (1, "rank 0 to listen at")])
def test_a_world_that_waits_for_ranks_ends_at_ctrl_c(rank, others):
    variables = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_PORT": str(20000 + os.getpid() % 10000), "BATON_JOB": f"interrupted-{os.getpid()}-{rank}"}
    out, problems = interrupted_script(MEETINGS.format(before="", meeting="baton.World.from_env('cpu')"), **variables)
    assert out == "ended\n" and f"baton: interrupted: rank {rank} of 2 waited" in problems and others in problems


def test_a_communicator_that_waits_for_ranks_ends_at_ctrl_c():
    out, problems = interrupted_script(MEETINGS.format(before="worlds = baton.World.local(2, device='cpu')",
                                                       meeting="baton.ExpertParallel(worlds[0], **sizes)"))
    assert out == "ended\n" and "baton: interrupted: rank 0 of 2 waited" in problems and "for rank 1 to join a collective call" in problems


def test_another_thread_may_give_up_where_ranks_meet():
    watchdog = "import threading; threading.Thread(target=lambda: [(time.sleep(0.3), baton.World.give_up_meetings()) for _ in range(9)]).start()"
    script = MEETINGS.format(before="worlds = baton.World.local(2, device='cpu'); " + watchdog, meeting="baton.ExpertParallel(worlds[0], **sizes)")
    process = subprocess.run([sys.executable, "-c", script.replace("KeyboardInterrupt", "baton.TransportError")], text=True, capture_output=True,
                             env={**os.environ, "BATON_DEADLINE_MS": "60000"}, timeout=60)
    assert process.returncode == 0 and process.stdout == "waiting\nended\n", process.stderr
