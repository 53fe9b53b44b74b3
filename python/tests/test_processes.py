"""One process a rank."""
import os
import subprocess
import sys

from launch import variables_of_ranks

SCRIPT = """
import numpy
import baton
from rounds import assert_scaled, round_data, scaled_experts

world = baton.World.from_env("cpu")
data = round_data(num_ranks=world.size)
ep = baton.ExpertParallel(world, **data.sizes())
for _ in range(3):
    recv = ep.dispatch(*data.given(world.rank))
    out = ep.combine(scaled_experts(recv))
    assert_scaled(data, world.rank, out)
print("rank", world.rank, "of", world.size)
"""


def start(script, variables):
    path = os.pathsep.join(filter(None, [os.path.dirname(__file__), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, **variables, "PYTHONPATH": path}
    return subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_processes_meet_as_torchrun_starts_them():
    ranks = [start(SCRIPT, variables) for variables in variables_of_ranks(2)]
    for rank, process in enumerate(ranks):
        out, problems = process.communicate(timeout=120)
        assert process.returncode == 0, problems
        assert out == f"rank {rank} of 2\n"


def test_a_missing_variable_is_named():
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    script = "import baton\ntry:\n    baton.World.from_env('cpu')\nexcept baton.InvalidArgument as error:\n    print(error)\n"
    said = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60)
    assert "RANK" in said.stdout, said
