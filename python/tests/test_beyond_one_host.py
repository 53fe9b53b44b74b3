"""bench/beyond_one_host.py, with processes of this machine that say that they are on two hosts."""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys

import pytest
from launch import variables_of_ranks

SOURCE = pathlib.Path(os.environ.get("BATON_SOURCE_DIR", pathlib.Path(__file__).parents[2]))
PROGRAM = SOURCE / "bench" / "beyond_one_host.py"
PAGE = "docs/two_hosts.md"
FEW = ["--device", "cpu", "--tokens", "6", "--hidden", "64", "--top-k", "3", "--experts", "13", "--rounds", "3"]
SMALL = ["--meet", "env", *FEW]


def outputs_of(hosts, *arguments, program=(PROGRAM, *SMALL), **environment):
    """What each rank says, and its exit code."""
    ranks = [subprocess.Popen([sys.executable, *program, *arguments], env={**os.environ, **environment, **variables, "BATON_HOST": host},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
             for host, variables in zip(hosts, variables_of_ranks(len(hosts)))]
    told = [rank.communicate(timeout=120) for rank in ranks]
    return [(rank.returncode, out + problems) for rank, (out, problems) in zip(ranks, told)]


@pytest.mark.parametrize("layout, levels", [("per_rank", "one"), ("per_rank", "two"), ("per_expert", "one")])
def test_ranks_of_two_hosts_are_right_in_groups_of_their_hosts_and_rank_0_tells_the_time(layout, levels):
    told = outputs_of(["left", "left", "right", "right"], "--repeats", "1", "--layout", layout, "--levels", levels)
    for rank, (code, text) in enumerate(told):
        assert code == 0, text
        assert text.splitlines()[0] == f"rank {rank} of 4, groups of 2: 3 rounds, 0 values wrong"
        assert ("us a round" in text) == (rank == 0)


def test_a_world_says_on_which_host_each_rank_is():
    told = outputs_of(["right", "left", "right"], program=("-c", "import baton; print(baton.World.from_env('cpu').hosts)"))
    assert told == [(0, "(0, 1, 0)\n")] * 3


@pytest.mark.parametrize("layout, place", [("per_rank", "dispatch.ids"), ("per_expert", "dispatch.arrival")])
def test_a_rank_that_is_silent_is_named_by_every_other_one(layout, place):
    all_told = outputs_of(["left", "right"], "--repeats", "0", "--silent", "1", "--deadline", "1", "--layout", layout)
    assert [code for code, _ in all_told] == [0, 0], all_told
    assert f"waited 1.0 s at {place} for rank 1" in all_told[0][1]


def changed(change):
    """The program, `it`, with a change."""
    return "-c", f"import sys; sys.path.insert(0, {str(PROGRAM.parent)!r}); import beyond_one_host as it; {change}; sys.exit(it.run(it.arguments(sys.argv[1:])))", *SMALL


def test_a_wrong_value_ends_in_an_exit_code():
    for code, text in outputs_of(["left", "right"], "--repeats", "0", program=changed("right = it.round_of; it.round_of = lambda *given: 2 * right(*given)")):
        assert code == 1 and re.search(r"3 rounds, [1-9]\d* values wrong", text), text


def test_who_names_another_rank_than_the_silent_one_ends_in_an_exit_code():
    all_told = outputs_of(["left", "right"], "--repeats", "0", "--silent", "1", "--deadline", "0.5", program=changed("it.who_was_named = lambda *_: 0"))
    assert [code for code, _ in all_told] == [1, 0], all_told


@pytest.mark.parametrize("wrong, says", [(("--rounds", "0"), "--rounds: 0, expected 1 or more"), (("--repeats", "-1"), "--repeats: -1, expected 0 (none) or more"),
                                         (("--deadline", "nan"), "--deadline: nan, expected seconds"), (("--silent", "2"), "--silent: 2, expected one of 2 ranks"),
                                         (("--silent", "-1"), "--silent: -1, expected one of 2 ranks")])
def test_what_would_prove_nothing_is_refused_by_name(wrong, says):
    for code, text in outputs_of(["left", "right"], *wrong):
        assert code == 2 and says in text, text


def test_hosts_that_take_turns_are_told_so_on_every_rank():
    for code, text in outputs_of(["left", "right", "left"]):
        assert code == 1 and "InvalidArgument: p2p_group_size: 0 means the ranks of a host" in text and "hosts of ranks: 0 1 0" in text, text


@pytest.mark.parametrize("hosts", ["a,b", "a:0,b:4", "--hosts", "a:4,"])
def test_hosts_without_a_number_of_gpus_are_refused_before_anything_is_started(hosts):
    run = subprocess.run([PROGRAM.parent / "two_hosts.sh", hosts], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout) == (2, "") and f"{hosts}: expected --here, or each host" in run.stderr, run.stderr


def test_without_mpirun_it_is_said_what_to_do(tmp_path):
    for tool in ("bash", "dirname", "readlink", "sed"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    run = subprocess.run([PROGRAM.parent / "two_hosts.sh", "--here"], env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout) == (2, "") and "mpirun is not found" in run.stderr, run.stderr


def test_every_host_is_told_what_baton_and_nvshmem_are(tmp_path):
    (tmp_path / "mpirun").write_text("#!/bin/sh\necho mpirun \"$@\"\n")
    (tmp_path / "mpirun").chmod(0o755)
    told = {"BATON_NVSHMEM": "/nvshmem", "BATON_HOST": "a", "NVSHMEM_SYMMETRIC_SIZE": "4G", "NVSHMEM_HCA_LIST": "mlx5_0 mlx5_1"}
    others = {name: value for name, value in os.environ.items() if not name.startswith(("BATON_", "NVSHMEM_"))}
    run = subprocess.run([PROGRAM.parent / "two_hosts.sh", "a:4,b:2"], env={**others, **told, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
                         capture_output=True, text=True, timeout=60)
    started = [line for line in run.stdout.splitlines() if line.startswith("mpirun")]
    assert run.returncode == 0 and len(started) == 6, run
    for line in started:
        assert line.startswith("mpirun -np 6 --host a:4,b:2 -x BATON_NVSHMEM -x NVSHMEM_HCA_LIST -x NVSHMEM_SYMMETRIC_SIZE python bench/beyond"), line


MPIRUN = """
import json, os, sys
with open(os.environ["TOLD"], "a") as told:
    print(json.dumps(sys.argv[1:]), file=told)
sys.exit("per_expert" in sys.argv and "--silent" in sys.argv and "--host" in sys.argv)
"""


def told_mpirun(tmp_path, hosts, **environment):
    """What two_hosts.sh says, and tells a mpirun that fails between hosts once."""
    told = tmp_path / "told"
    run = subprocess.run([PROGRAM.parent / "two_hosts.sh", hosts], env={**programs(tmp_path, mpirun=MPIRUN), "TOLD": told, **environment},
                         capture_output=True, text=True, timeout=60)
    return run, [json.loads(line) for line in told.read_text().splitlines()]


def values_of(option, commands):
    return [command[i + 1] for command in commands for i, word in enumerate(command) if word == option]


def test_of_what_mpirun_starts_between_hosts_what_failed_is_named(tmp_path):
    run, commands = told_mpirun(tmp_path, "a:4,b:2")
    assert run.returncode == 1 and run.stdout.splitlines()[-1] == "failed: the last rank falls silent, layout per_expert", run.stdout
    assert values_of("--silent", commands) == ["5"] * 3 and not values_of("--device", commands)
    assert values_of("--layout", commands) == ["per_expert", "per_rank", "per_rank", "per_expert"] and values_of("--levels", commands) == ["two"] * 2


def test_mpirun_is_told_of_two_hosts_that_are_this_machine(tmp_path):
    run, commands = told_mpirun(tmp_path, "--here")
    assert run.returncode == 0 and run.stdout.splitlines()[-1] == "all of it was right on 4 ranks", run.stdout
    assert values_of("-np", commands) == ["2"] * 12 and values_of("-x", commands) == ["BATON_HOST=left", "BATON_HOST=right"] * 6
    assert values_of("--silent", commands) == ["3"] * 6 and values_of("--device", commands) == ["cpu"] * 12


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs Open MPI's mpirun")
def test_one_command_says_that_all_is_right_between_hosts_of_this_machine():
    pytest.importorskip("mpi4py", reason="needs mpi4py")
    environment = {**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    run = subprocess.run([PROGRAM.parent / "two_hosts.sh", "--here"], env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.splitlines()[-1] == "all of it was right on 4 ranks"
    assert run.stdout.count("0 values wrong") == 6 * 4 and run.stdout.count("for rank 3, round 4") == 3 * 3


def block_that_begins(with_what):
    """Of the page's, with a port that is free here."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    blocks = re.findall(r"^```sh\n(.*?)^```", (SOURCE / PAGE).read_text(), flags=re.M | re.S)
    return next(block for block in blocks if block.startswith(with_what)).replace("29500", str(port))


def assert_all_ranks_are_right(told, size):
    for rank in range(size):
        assert f"rank {rank} of {size}, groups of {size // 2}: 3 rounds, 0 values wrong" in told, told


def programs(folder, **scripts):
    """A PATH whose first folder has these."""
    for name, text in scripts.items():
        (folder / name).write_text(f"#!{sys.executable}\n{text}")
        (folder / name).chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1", **variables_of_ranks(1)[0]}


SRUN = """
import os, subprocess, sys
nodes, tasks = (int(sys.argv[sys.argv.index(name) + 1]) for name in ("--nodes", "--ntasks-per-node"))
work = sys.argv[sys.argv.index("sh"):]
ranks = [subprocess.Popen(work, env={**os.environ, "SLURM_PROCID": str(n * tasks + t), "SLURM_NTASKS": str(nodes * tasks), "SLURM_LOCALID": str(t), "BATON_HOST": str(n)})
         for n in range(nodes) for t in range(tasks)]
sys.exit(max([rank.wait() for rank in ranks]))
"""


def test_the_page_s_srun_starts_ranks_that_are_right(tmp_path):
    """With a srun whose two nodes are this machine. Ranks meet by their launcher's variables here, which needs no PyTorch."""
    python = f"import os, sys\nos.execv({sys.executable!r}, [{sys.executable!r}, *sys.argv[1:], *{SMALL!r}, '--repeats', '0'])\n"
    environment = programs(tmp_path, srun=SRUN, python=python, scontrol="print('localhost')\n")
    said = subprocess.run(["sh", "-ec", block_that_begins("export MASTER_ADDR=")], cwd=SOURCE, env={**environment, "SLURM_JOB_NODELIST": "a,b"},
                          capture_output=True, text=True, timeout=240)
    assert said.returncode == 0, said.stderr
    assert_all_ranks_are_right(said.stdout, 8)


def test_the_page_s_torchrun_starts_ranks_that_are_right(tmp_path):
    """On two hosts, both of them this machine, with a rank each: a process of PyTorch takes seconds to start."""
    pytest.importorskip("torch", exc_type=ImportError)
    command = block_that_begins("torchrun").replace("HOST_OF_RENDEZVOUS", "localhost").replace("--nproc-per-node 4", "--nproc-per-node 1").rstrip()
    torchrun = f"import os, sys\nos.execv({sys.executable!r}, [{sys.executable!r}, '-m', 'torch.distributed.run', *sys.argv[1:]])\n"
    environment = programs(tmp_path, torchrun=torchrun)
    hosts = [subprocess.Popen(["sh", "-ec", " ".join([command, *FEW, "--repeats", "0"])], cwd=SOURCE, env={**environment, "BATON_HOST": host},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for host in ("a", "b")]
    told = [host.communicate(timeout=240) for host in hosts]
    assert [host.returncode for host in hosts] == [0, 0], told
    assert_all_ranks_are_right("".join(out for out, _ in told), 2)
