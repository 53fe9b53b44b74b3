"""The package from the outside: what it imports, its program, its stubs, its pages."""
import ast
import importlib.metadata
import inspect
import os
import pathlib
import re
import subprocess
import sys

import pytest

import baton
from launch import variables_of_ranks

FOLDER = pathlib.Path(baton.__file__).parent
SOURCE = pathlib.Path(os.environ.get("BATON_SOURCE_DIR", pathlib.Path(__file__).parents[2]))


def python(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120)


def test_importing_it_imports_neither_numpy_nor_a_framework():
    names = ("numpy", "ml_dtypes", "torch", "cupy", "jax", "mpi4py", "json.tool")
    said = python("-c", f"import sys, baton; print([n for n in {names} if n in sys.modules])")
    assert said.stdout == "[]\n", said


def test_importing_it_takes_no_time_worth_a_word():
    script = "import time; began = time.perf_counter(); import baton; print(time.perf_counter() - began)"
    assert min(float(python("-c", script).stdout) for _ in range(5)) < 0.15


def test_it_is_imported_after_whatever_uses_the_standard_library():
    """As PyTorch does: thread-local memory of libstdc++ has a place by then, and no fixed one."""
    said = python("-c", "import ctypes; ctypes.c_void_p.in_dll(ctypes.CDLL('libstdc++.so.6'), '_ZSt15__once_callable'); import baton")
    assert said.returncode == 0, said.stderr


def test_the_version_is_that_of_the_library():
    assert importlib.metadata.version("baton-kernels") == baton.__version__


def test_the_program_comes_along():
    said = python("-m", "baton", "doctor")
    assert "baton" in said.stdout.lower(), said
    said = python("-m", "baton", "bench", "ep", "--help")
    assert said.returncode == 0 and "--ranks" in said.stdout, said
    assert python("-m", "baton", "nothing").returncode == 2


def test_everything_public_says_what_it_does():
    for name in baton.__all__:
        thing = getattr(baton, name)
        assert thing.__doc__ or name == "build_info", name
        for member, value in vars(thing).items() if isinstance(thing, type) else ():
            if callable(value) and not member.startswith("_") and member not in ("reset_wait_times",):
                assert value.__doc__, f"{name}.{member}"


def test_the_stub_has_what_the_package_uses_of_the_library():
    stub = ast.parse((FOLDER / "_core.pyi").read_text())
    has = {node.name for node in stub.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    uses = set()
    for path in FOLDER.glob("*.py"):
        uses |= set(re.findall(r"(?<![.\w])_core\.(\w+)", path.read_text()))
    assert uses - has == set() and (FOLDER / "py.typed").exists()
    quick = next(node for node in stub.body if getattr(node, "name", None) == "quick")
    assert ast.unparse(quick.args) == "method: Method" and ast.unparse(quick.returns) == "Method"  # decorated methods keep their types
    members = {node.name for of in stub.body if getattr(of, "name", None) == "Received" for node in of.body if isinstance(node, ast.FunctionDef)}
    uses = set(re.findall(r"self\.(_its_\w+)", (FOLDER / "_received.py").read_text()))
    assert uses and uses - members == set() and "_view_tokens" in members


ON_GPUS = "docs/python_on_gpus.md"


def blocks(page, device="cuda"):
    """The page's code; of the one for GPUs what it says that CPU ranks run."""
    found = re.findall(r"^```python\n(.*?)^```", (SOURCE / page).read_text(), flags=re.M | re.S)
    if page == ON_GPUS and device == "cpu":
        return [block.replace('"cuda"', '"cpu"') for block in found if "torch.cuda." not in block]
    return found


def run_blocks(page, device):
    """One after the other, as who reads the page does."""
    scope = {}
    for block in blocks(page, device):
        exec(compile(block, page, "exec"), scope)


PAGES = ["README.md", "python/README.md", "docs/python.md", "docs/deep_ep.md", "docs/torch.md", "docs/migrating.md", ON_GPUS]


@pytest.mark.parametrize("page", PAGES)
def test_what_pages_show_runs(page, monkeypatch):
    found, device = blocks(page), "cuda"
    assert found, page
    for name, value in variables_of_ranks(1)[0].items():
        monkeypatch.setenv(name, value)
    if any("import torch" in block for block in found):
        torch = pytest.importorskip("torch", exc_type=ImportError)
        if page == ON_GPUS and ("CUDA" not in baton.build_info() or not torch.cuda.is_available()):  # as it says
            device = "cpu"
    if any("import baton.transformers" in block for block in found):
        pytest.importorskip("transformers", exc_type=ImportError)
    monkeypatch.chdir(SOURCE)
    run_blocks(page, device)


def test_every_page_that_shows_python_is_run():
    shown = [path.relative_to(SOURCE).as_posix() for folder in (".", "docs", "python", "examples") for path in (SOURCE / folder).glob("*.md")]
    assert {page.removeprefix("./") for page in shown if blocks(page)} == set(PAGES)


def test_calls_with_a_quick_way_are_methods_like_others():
    worlds = baton.World.local(1, device="cpu")
    with baton.ExpertParallel(worlds[0], num_experts=2, top_k=1, hidden=128, num_max_tokens_per_rank=4) as ep:
        for name, takes in (("dispatch", 2), ("dispatch_async", 2), ("dispatch_wait", 0), ("combine", 1), ("combine_async", 1), ("combine_wait", 0)):
            method, of_class = getattr(ep, name), getattr(baton.ExpertParallel, name)
            assert ["self", *inspect.signature(method).parameters] == list(inspect.signature(of_class).parameters)
            assert list(inspect.signature(method).parameters.values())[-1].kind is inspect.Parameter.KEYWORD_ONLY
            assert method.__doc__ == of_class.__doc__ and len(method.__doc__) > 50 and method.__self__ is ep and method.__name__ == name
            if takes > 0:
                with pytest.raises(TypeError, match="missing 1 required positional argument"):
                    method(*[None] * (takes - 1))
            with pytest.raises(TypeError, match="no_such"):
                method(*[None] * takes, no_such=1)
            with pytest.raises(TypeError):
                of_class()
        assert "4-bit" in baton.Received.tokens.__doc__
    with pytest.raises(TypeError):
        baton.Received()
