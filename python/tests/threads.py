"""Ranks on threads of this process that meet as processes would."""
import threading


class gathering:
    """all_gather between threads."""

    def __init__(self, size):
        self.barrier, self.of_ranks = threading.Barrier(size, timeout=60), [None] * size

    def of(self, rank):
        def all_gather(mine):
            self.of_ranks[rank] = mine
            self.barrier.wait()
            everything = list(self.of_ranks)
            self.barrier.wait()
            return everything
        return all_gather


def on_threads(size, work):
    """work(rank, all_gather) on a thread a rank; what each returned or raised."""
    meeting, results = gathering(size), [None] * size

    def run(rank):
        try:
            results[rank] = work(rank, meeting.of(rank))
        except Exception as error:
            results[rank] = error
        except BaseException as error:  # pytest's own, of an exception that did not come, is no Exception
            results[rank] = AssertionError(str(error))

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
