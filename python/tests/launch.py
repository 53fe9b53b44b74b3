"""What torchrun tells the processes that it starts."""
import itertools
import os

runs = itertools.count()


def variables_of_ranks(size):
    """Of each rank of a run of its own, which no other run on this machine can be taken for."""
    run = f"{os.getpid()}-{next(runs)}"
    return [{"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500",
             "TORCHELASTIC_RUN_ID": run} for rank in range(size)]
