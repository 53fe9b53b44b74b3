"""Ranks that are processes with torch's tensors: on CPUs, and on one GPU and on several where there are as many."""
import os
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)

import baton
from launch import variables_of_ranks

SCRIPT = pathlib.Path(__file__).with_name("rank_of_torch.py")
TIMES = pathlib.Path(os.environ.get("BATON_SOURCE_DIR", pathlib.Path(__file__).parents[2])) / "bench" / "low_latency_rounds.py"
GPUS = torch.cuda.device_count() if "CUDA" in baton.build_info() and torch.cuda.is_available() else 0
GROUPS = [("cpu", 2), *(("cuda", size) for size in (1, 2, 4, 8))]


def need(device, size):
    if device == "cuda" and size > GPUS:
        pytest.skip(f"{size} GPUs and a wheel with their kernels, found {GPUS}")


def start(what, device, size, **more):
    return started([SCRIPT, what, device], device, size, **more)


def started(program, device, size, **more):
    need(device, size)
    return [subprocess.Popen([sys.executable, *program], env={**os.environ, "OMP_NUM_THREADS": "1", **variables, **more},
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for variables in variables_of_ranks(size)]


def outputs(ranks):
    said = [process.communicate(timeout=240) for process in ranks]
    problems = [problem for process, (_, problem) in zip(ranks, said) if process.returncode != 0]
    for problem in sorted(problems, key=lambda text: "baton.Stuck" in text):
        raise AssertionError(problem)  # rather than that another rank waited for it
    return [out for out, _ in said]


@pytest.mark.parametrize("device, size", GROUPS)
def test_ranks_that_a_launcher_started_exchange_tensors(device, size):
    outputs(start("from_env", device, size))


@pytest.mark.parametrize("device, size", GROUPS)
def test_torchrun_and_its_process_group_make_a_world(device, size):
    need(device, size)
    said = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(size), SCRIPT, "from_torch", device],
                          capture_output=True, text=True, timeout=240, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert said.returncode == 0, said.stderr


@pytest.mark.parametrize("device, size", GROUPS)
def test_the_interface_of_deep_ep_gives_what_it_should(device, size):
    outputs(start("deep_ep", device, size))


@pytest.mark.parametrize("device, size", GROUPS)
def test_rounds_of_low_latency_are_timed_once_they_are_right(device, size):
    few = "--tokens 4 --hidden 512 --experts 8 --top-k 2 --repeats 1 --rounds 2".split()
    first, *rest = outputs(started([TIMES, "--device", device, *few], device, size))
    assert [line[:14].strip() for line in first.splitlines()] == ["deep_ep, bf16", "deep_ep, fp8", "baton, bf16", "baton, fp8"]
    assert rest == [""] * (size - 1)


@pytest.mark.parametrize("device, size", GROUPS[1:])
def test_a_layer_in_a_graph_is_replayed_with_other_tokens(device, size):
    outputs(start("captured", device, size))


@pytest.mark.parametrize("device, size", GROUPS)
def test_what_the_page_for_gpus_shows_runs_on_ranks(device, size):
    for rank, out in enumerate(outputs(start("page", device, size))):
        assert "can be had" in out, (rank, out)


@pytest.mark.parametrize("device, size", [group for group in GROUPS if group[1] > 1])
def test_a_rank_that_does_not_come_is_named(device, size):
    first, *_ = outputs(start("late", device, size, BATON_DEADLINE_MS="1500"))
    assert first.startswith("stuck: rank 0 waited")


@pytest.mark.parametrize("device, size", [group for group in GROUPS if group[1] > 1])
def test_ctrl_c_ends_a_hang_and_says_who_was_waited_for(device, size):
    ranks = start("interrupted", device, size, BATON_DEADLINE_MS="60000")
    (out, problems), *_ = [process.communicate(timeout=240) for process in ranks]
    assert out == "interrupted\n" and "baton: interrupted: rank 0 waited" in problems and ranks[0].returncode == 0, problems


@pytest.mark.parametrize("device, size", GROUPS)
def test_the_small_model_writes_its_texts_as_transformers_does(device, size):
    pytest.importorskip("transformers", exc_type=ImportError)
    for out in outputs(start("model", device, size)):
        assert [line.split(":")[0] for line in out.splitlines()] == ["transformers", "parallelize", "from_pretrained"]
