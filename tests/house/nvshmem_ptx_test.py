"""Where nvcc and NVSHMEM's headers are: what a lane signals to a rank that stores reach lies behind our fence (nvshmem_gpu.cuh).

There NVSHMEM's own fence orders nothing that other warps have stored, and its signal is a volatile store.
"""
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import check_ptx

FENCE, SIGNAL = r"fence\.acq_rel\.sys\b", r"st\.volatile(\.global)?\.u64\b"


def unfenced_signals(body):
    """Lines of a kernel that signal with no fence behind the signal before, and how many lines signal."""
    fenced, lines, count = False, [], 0
    for line in body.splitlines():
        if re.search(FENCE, line):
            fenced = True
        elif re.search(SIGNAL, line):
            count += 1
            if not fenced:
                lines.append(line.strip())
            fenced = False
    return lines, count


def nvshmem_root():
    places = [os.environ.get("BATON_NVSHMEM")]
    try:
        found = importlib.util.find_spec("nvidia.nvshmem")
        places += found.submodule_search_locations if found else []
    except ModuleNotFoundError:
        pass
    return next((p for p in places if p and (pathlib.Path(p) / "include/nvshmem.h").exists()), None)


class nvshmem_ptx(unittest.TestCase):
    def test_a_signal_behind_a_fence_passes_and_one_without_is_shown(self):
        fence, signal = "\tfence.acq_rel.sys; // 1.\n", "\tst.volatile.u64 [%rd1], %rd2;\n"
        self.assertEqual(unfenced_signals(fence + signal + fence + signal), ([], 2))
        self.assertEqual(unfenced_signals(fence + signal + signal), ([signal.strip()], 2))
        self.assertEqual(unfenced_signals("\tfence.acq_rel.gpu;\n\tmembar.sys;\n" + signal), ([signal.strip()], 1))

    def test_what_is_signalled_lies_behind_a_fence_of_the_system(self):
        nvcc, nvshmem = shutil.which("nvcc"), nvshmem_root()
        if nvcc is None:
            self.skipTest("nvcc is not in PATH")
        if nvshmem is None:
            self.skipTest("NVSHMEM's headers are not here: pip install nvidia-nvshmem-cu13, or set BATON_NVSHMEM")
        root = pathlib.Path(check_ptx.__file__).parents[1]
        with tempfile.TemporaryDirectory() as folder:
            ptx = pathlib.Path(folder, "lost_rank.ptx")
            subprocess.run([nvcc, "-O3", "-DNDEBUG", "-DBATON_CUDA=1", "-std=c++20", "--expt-relaxed-constexpr", "-rdc=true",
                            "-arch=compute_90a", f"-I{root}/include", f"-I{root}/src", "-isystem", f"{nvshmem}/include",
                            "-ptx", f"{root}/src/nvshmem/lost_rank.cu", "-o", ptx], check=True)
            found = [unfenced_signals(body) for body in check_ptx.entries(ptx.read_text()).values()]
        self.assertEqual([lines for lines, _ in found if lines], [])
        self.assertGreater(sum(count for _, count in found), 0)


if __name__ == "__main__":
    unittest.main()
