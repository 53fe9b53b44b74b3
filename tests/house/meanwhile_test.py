"""What ./dev test runs beside tests: when it begins, who it makes room for, and that nothing of it stays."""
import os
import pathlib
import signal
import subprocess
import sys
import time

import meanwhile
from planted import planted_tree

# Says who it is and whom it started, and ends when it is told to. A shell, as a Python that gets what idles gets may begin for minutes.
COMMAND = """
sleep 60 &
echo $$ $! > "$1/ids"
read word < "$1/more"
kill $!
exit $2
"""
# Starts what it is told to, and leaves it alone once it may.
LEAVER = """
import pathlib, subprocess, sys, time
subprocess.Popen(sys.argv[2:])
while not (pathlib.Path(sys.argv[1]) / "leave").exists(): time.sleep(0.01)
"""
IDLE, OTHER = os.SCHED_IDLE, os.SCHED_OTHER


class beside_tests(planted_tree):
    def setUp(self):
        super().setUp()
        os.mkfifo(self.root / "more")

    def command(self, code=0):
        shell = ["sh", self.plant("command.sh", COMMAND), self.root, code]
        return list(map(str, [sys.executable, meanwhile.__file__, self.root, *shell]))

    def begin(self, *command):
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self.addCleanup(running.wait)
        self.addCleanup(running.terminate)
        return running

    def touch(self, name):
        (self.root / name).touch()

    def ids(self):
        path = self.root / "ids"
        self.until(lambda: path.exists() and path.read_text().endswith("\n"))
        return list(map(int, path.read_text().split()))

    def until(self, holds):
        end = time.monotonic() + 120
        while not holds():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)

    def test_it_waits_then_idles_and_then_goes_on_like_any_other(self):
        running = self.begin(*self.command(code=3))
        time.sleep(0.5)
        self.assertFalse((self.root / "ids").exists())
        self.touch("go")
        ids = self.ids()
        self.assertEqual([os.sched_getscheduler(one) for one in ids], [IDLE, IDLE])
        self.touch("now")
        if os.geteuid() == 0:  # others may not leave what is idle, unless RLIMIT_NICE says so
            self.until(lambda: [os.sched_getscheduler(one) for one in ids] == [OTHER, OTHER])
        (self.root / "more").write_text("\n")
        self.assertEqual(running.wait(), 3)
        self.assertGreaterEqual(int((self.root / "spent").read_text()), 0)

    def test_what_begins_when_nobody_else_is_left_never_idles(self):
        self.touch("now")
        self.begin(*self.command())
        self.assertEqual([os.sched_getscheduler(one) for one in self.ids()], [OTHER, OTHER])

    def test_what_is_ended_ends_all_that_it_started(self):
        running = self.begin(*self.command())
        self.touch("go")
        ids = self.ids()
        running.send_signal(signal.SIGTERM)
        self.assertEqual(running.wait(), 128 + signal.SIGTERM)
        self.until(lambda: not any(map(meanwhile.is_idle, ids)))

    def test_what_is_left_alone_ends(self):
        self.touch("go")
        leaver = self.begin(sys.executable, "-c", LEAVER, str(self.root), *self.command())
        ids = self.ids()
        self.touch("leave")
        self.assertEqual(leaver.wait(), 0)
        self.until(lambda: not any(map(meanwhile.is_idle, ids)))
