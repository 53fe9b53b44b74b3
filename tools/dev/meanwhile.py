#!/usr/bin/env python3
"""Runs a command with what others leave of the machine: meanwhile.py FOLDER COMMAND [ARGUMENTS ...]

It begins when the file FOLDER/go is there. None of its processes runs where another wants to, until FOLDER/now is there: then they
are like any other. FOLDER/spent becomes the CPU seconds that it took. Ends all that it started when it is ended, or left alone.
"""
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

LOOKS_EVERY = 0.1  # seconds


def set_policy(pid, policy):
    """False where that is not allowed, or nobody is there."""
    try:
        os.sched_setscheduler(pid, policy, os.sched_param(0))
        return True
    except OSError:
        return False


def children_of_all():
    """Of each process that has any."""
    children = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(entry.read_text().rpartition(")")[2].split()[1])  # behind the name, which may hold anything
        except (OSError, ValueError):
            continue
        children.setdefault(parent, []).append(int(entry.parent.name))
    return children


def all_under(pid):
    """Parents before their children."""
    children, found = children_of_all(), [pid]
    for one in found:
        found += children.get(one, [])
    return found[1:]


def is_idle(pid):
    try:
        return os.sched_getscheduler(pid) == os.SCHED_IDLE
    except OSError:
        return False


def end_idling():
    """Of this process and all under it. What one of them starts meanwhile may be idle still, so it looks again."""
    set_policy(0, os.SCHED_OTHER)
    for _ in range(10):
        idle = [one for one in all_under(os.getpid()) if is_idle(one)]
        if not [one for one in idle if set_policy(one, os.SCHED_OTHER)]:
            return


def end_all(*_):
    for one in all_under(os.getpid()):
        try:
            os.kill(one, signal.SIGTERM)
        except ProcessLookupError:
            pass
    os._exit(128 + signal.SIGTERM)


def wait(folder, parent):
    """Until the command may begin. True if it is to idle."""
    while True:
        if os.getppid() != parent:
            end_all()
        if (folder / "now").exists():
            return False
        if (folder / "go").exists() and set_policy(0, os.SCHED_IDLE):
            return True
        time.sleep(LOOKS_EVERY)


def main(folder, *command):
    parent = os.getppid()
    signal.signal(signal.SIGTERM, end_all)
    folder = pathlib.Path(folder)
    idles = wait(folder, parent)
    running = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    while running.poll() is None:
        if os.getppid() != parent:
            end_all()
        if idles and (folder / "now").exists():
            end_idling()
            idles = False
        time.sleep(LOOKS_EVERY)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    (folder / "spent").write_text(f"{spent.ru_utime + spent.ru_stime:.0f}\n")
    return running.returncode if running.returncode >= 0 else 128 - running.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
