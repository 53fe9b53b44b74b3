"""examples/python, each as a user runs it."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

from launch import variables_of_ranks

FOLDER = pathlib.Path(os.environ.get("BATON_SOURCE_DIR", pathlib.Path(__file__).parents[2])) / "examples" / "python"


TEXT = "metaclass=ABCMeta):\n\n    __slots__ = ()"[:24]


def start(name, *arguments, **environment):
    return subprocess.Popen([sys.executable, FOLDER / name, *arguments], env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)


def output_of(process):
    out, problems = process.communicate(timeout=120)
    assert process.returncode == 0, out + problems
    return out


def test_the_quick_start_says_that_it_worked():
    assert output_of(start("quick_start.py")).endswith("it worked: every token is the weighted sum of its experts\n")


def test_a_process_for_each_rank_prints_a_line_a_step():
    ranks = [start("process_for_each_rank.py", **variables) for variables in variables_of_ranks(3)]
    for rank, process in enumerate(ranks):
        assert [line.split(":")[0] for line in output_of(process).splitlines()] == [f"rank {rank} of 3, step {step}" for step in range(3)]


def test_who_is_stuck_is_told_meanwhile_and_at_the_deadline():
    out = output_of(start("who_is_stuck.py"))
    assert "meanwhile: {" in out and re.search(r"rank 0 waited \d+\.\d s for rank 1 in dispatch\.ids", out)


def test_a_model_of_transformers_writes_on_every_rank():
    pytest.importorskip("torch", exc_type=ImportError)
    pytest.importorskip("transformers", exc_type=ImportError)
    model = FOLDER.parents[1] / "data" / "tiny-moe"
    ranks = [start("transformers_generate.py", model, "import unittest\n\nclass TestCase(", **variables, OMP_NUM_THREADS="1")
             for variables in variables_of_ranks(2)]
    for rank, process in enumerate(ranks):
        assert output_of(process) == f"rank {rank} of 2: {TEXT!r}\n"


def test_a_profile_names_operators(tmp_path):
    pytest.importorskip("torch", exc_type=ImportError)
    trace = tmp_path / "trace.json"
    out = output_of(start("profile_with_torch.py", "cpu", trace, OMP_NUM_THREADS="1"))
    lines = dict(re.fullmatch(r"(\S+) +(\d+) times, +[\d.]+ us each on the CPU", line).groups() for line in out.splitlines())
    assert lines == dict.fromkeys(("router", "baton::dispatch", "baton::expert_mlp", "baton::combine"), "5")
    assert '"baton::expert_mlp"' in trace.read_text()


def test_host_time_of_a_round_is_told():
    out = output_of(start("host_time.py", "cpu"))
    assert re.fullmatch(r"cpu, in Python: a dispatch and a combine take \d+\.\d us of this thread\n", out), out


def test_every_example_is_run_here():
    assert {path.name for path in FOLDER.glob("*.py")} == {"host_time.py", "quick_start.py", "process_for_each_rank.py", "profile_with_torch.py",
                                                           "transformers_generate.py", "who_is_stuck.py"}
