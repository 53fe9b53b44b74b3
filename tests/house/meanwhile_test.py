"""What ./dev test runs beside tests: when it begins, who it makes room for, and that nothing of it stays."""
import os
import pathlib
import signal
import subprocess
import sys
import time

import meanwhile
from planted import planted_tree

# Says how it is scheduled, twice: when it begins, and when it is told to go on. So does a process that it starts at first.
COMMAND = """
import os, pathlib, subprocess, sys, time
folder = pathlib.Path(sys.argv[1])
def say(text): open(folder / "said", "a").write(text + "\\n")
def wait(name):
    while not (folder / name).exists(): time.sleep(0.01)
under = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
(folder / "under").write_text(str(under.pid))
say(f"begins {os.sched_getscheduler(0)} {os.sched_getscheduler(under.pid)}")
wait("more")
say(f"goes on {os.sched_getscheduler(0)} {os.sched_getscheduler(under.pid)}")
under.kill()
under.wait()
sys.exit(int(sys.argv[2]))
"""
IDLE, OTHER = os.SCHED_IDLE, os.SCHED_OTHER


class beside_tests(planted_tree):
    def begin(self, code=0):
        command = [sys.executable, self.plant("command.py", COMMAND), self.root, str(code)]
        running = subprocess.Popen([sys.executable, pathlib.Path(meanwhile.__file__), self.root, *command])
        self.addCleanup(running.wait)
        self.addCleanup(running.terminate)
        return running

    def touch(self, name):
        (self.root / name).touch()

    def said(self, lines=1):
        path = self.root / "said"
        self.until(lambda: path.exists() and path.read_text().count("\n") == lines)
        return path.read_text().splitlines()

    def until(self, holds):
        end = time.monotonic() + 30
        while not holds():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def test_it_waits_then_idles_and_then_goes_on_like_any_other(self):
        running = self.begin(code=3)
        time.sleep(0.5)
        self.assertFalse((self.root / "said").exists())
        self.touch("go")
        self.assertEqual(self.said(), [f"begins {IDLE} {IDLE}"])
        self.touch("now")
        under = int((self.root / "under").read_text())
        if os.geteuid() == 0:  # others may not leave what is idle, unless RLIMIT_NICE says so
            self.until(lambda: os.sched_getscheduler(under) == OTHER)
        self.touch("more")
        self.assertEqual(running.wait(), 3)
        if os.geteuid() == 0:
            self.assertEqual(self.said(2)[1], f"goes on {OTHER} {OTHER}")
        self.assertGreaterEqual(int((self.root / "spent").read_text()), 0)

    def test_what_begins_when_nobody_else_is_left_never_idles(self):
        self.touch("now")
        self.begin()
        self.assertEqual(self.said(), [f"begins {OTHER} {OTHER}"])

    def test_what_is_ended_ends_all_that_it_started(self):
        running = self.begin()
        self.touch("go")
        self.said()
        under = int((self.root / "under").read_text())
        running.send_signal(signal.SIGTERM)
        self.assertEqual(running.wait(), 128 + signal.SIGTERM)
        self.until(lambda: not meanwhile.is_idle(under))

    def test_what_is_left_alone_ends(self):
        self.touch("go")
        command = [sys.executable, self.plant("command.py", COMMAND), self.root, "0"]
        whole = [sys.executable, meanwhile.__file__, self.root, *command]
        alone = "import subprocess, sys, time; subprocess.Popen(sys.argv[1:]); time.sleep(0.7)"
        subprocess.run([sys.executable, "-c", alone, *map(str, whole)], stdout=subprocess.DEVNULL, timeout=30)
        self.said()
        under = int((self.root / "under").read_text())
        self.until(lambda: not meanwhile.is_idle(under))
