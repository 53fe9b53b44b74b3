#!/usr/bin/env python3
"""Fails if a file sees a layer it must not know about: check_layers.py [ROOT].

A layer is a folder. MAY_SEE holds the arrows, ARCHITECTURE.md draws them. A file sees what it includes and what that includes:
arrows hold through every header on the way. Arrows that nobody uses fail too, and so do cycles, which cannot be drawn. So does a folder of
kernels that ARCHITECTURE.md has no link to, and a test in the wrong one of tests/cpu, tests/both and tests/kernels: tests of kernels that only GPUs
run have a folder, and those of the exchange may stand there. What asks whether there is a sanitizer stands in tests/both, as `./dev test` runs the
others with the sanitizers alone, where they would be skipped, or show less.
"""
import pathlib
import re
import sys

import tree

MAY_SEE = {  # layer: the layers whose files its own may see, by their #includes or through others
    "include/baton": [],
    "src/base": ["include/baton"],
    "src/exec": ["include/baton", "src/base"],
    "src/protocol": ["include/baton", "src/base", "src/exec"],
    "src/ptx": ["src/exec"],
    "src/device": ["include/baton", "src/base", "src/exec", "src/ptx"],
    "sim": ["include/baton", "src/base", "src/exec"],
    "src/bootstrap": ["include/baton", "src/base"],
    "src/runtime": ["include/baton", "src/base", "src/exec", "sim", "src/bootstrap"],
    "src/kernels": ["include/baton", "src/base", "src/exec", "src/protocol", "src/ptx", "src/device", "sim", "src/bootstrap",
                    "src/runtime"],
    "src/nvshmem": ["include/baton", "src/base", "src/exec", "src/protocol", "src/ptx", "src/device", "src/kernels", "src/runtime"],
    "src/api": ["include/baton", "src/base", "src/exec", "src/protocol", "src/bootstrap", "src/runtime", "src/kernels"],
    "checks": ["include/baton", "src/base", "src/exec", "src/protocol", "src/kernels", "sim"],
    "forecast": ["include/baton", "src/base", "src/exec", "src/protocol", "src/kernels"],
    "cli/model": ["include/baton", "src/base"],
    "cli/view": [],
    "cli/bench": ["include/baton", "src/base", "src/exec", "src/protocol", "src/ptx", "src/device", "src/bootstrap",
                  "src/runtime", "cli/view"],
    "cli": ["include/baton", "src/base", "src/exec", "sim", "checks", "forecast", "cli/model", "cli/view", "cli/bench"],
    "python": ["include/baton"],
    "examples": ["include/baton", "src/base", "src/exec", "sim"],
    "tests": ["include/baton", "src/base", "src/exec", "src/protocol", "src/ptx", "src/device", "src/kernels", "src/bootstrap",
              "src/runtime", "sim", "checks", "forecast", "cli/model", "cli/view", "cli/bench", "cli"],
}
CHECKER = r"sim/(check\.hpp|check/\w+\.hpp|lane_verbs\.hpp|fiber_stack\.hpp|mbarrier_model\.hpp)$"
# Where a layer sees only some files of another: what a kernel is asked and how it is launched, never its body.
DOORS = {("src/api", "src/kernels"): r"kernels/\w+(/\w+)?/(launch|creation|endpoint|outputs|params|config|shape|shape_of|layout|received|progress|token_format|cpu|cells)\.hpp$",
         ("forecast", "src/kernels"): r"kernels/ep/(\w+/)?(shape|shape_of|layout|received|cells)\.hpp$",
         ("cli", "sim"): CHECKER,
         ("examples", "sim"): CHECKER}
DEVICE_LAYERS = ("src/ptx", "src/device")  # .cu and .cuh alone may include these
CUDA_HEADER = re.compile(r"(cuda|cooperative_groups|nvrtc|device_launch_parameters)[\w/.]*|cuda/.*")
CUDA_FREE = ("include/baton", "src/base", "src/exec", "src/protocol", "sim", "checks", "forecast", "examples")
PLACES = ("", "src/", "include/")  # where an #include is looked for


def layer_of(path):
    """The layer of a file: the innermost folder of MAY_SEE it is in."""
    return max((layer for layer in MAY_SEE if path.startswith(layer + "/")), key=len, default=None)


def includes(path):
    """(line, what, whether only nvcc sees it) of every #include."""
    guards = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if found := re.match(r'\s*#\s*(if|ifdef|ifndef|else|elif|endif|include)\b\s*(.*)', line):
            directive, rest = found.groups()
            if directive.startswith("if"):
                guards.append("__CUDACC__" in rest and directive != "ifndef")
            elif directive in ("else", "elif") and guards:
                guards[-1] = False
            elif directive == "endif" and guards:
                guards.pop()
            elif what := re.match(r'[<"]([^">]+)', rest):
                yield number, what[1], any(guards)


class include_graph:
    """Who includes what, of the files of the tree and of files that they name."""

    def __init__(self, root):
        self.paths = {path.relative_to(root).as_posix(): path for path in tree.sources(root)}
        self.includes = {name: list(includes(path)) for name, path in self.paths.items()}

    def file(self, what, includer):
        """The file that an #include names; None: not of this project."""
        folder = includer.rpartition("/")[0] + "/"
        names = [place + what for place in (*PLACES, folder, "tests/")]
        return next((name for name in names if name in self.paths), next(filter(layer_of, names[:3]), None))

    def seen(self, first):
        """{file: how it is seen} of the file and all that it includes, nearest first."""
        ways = {first: first}
        for name in (queue := [first]):
            for _, what, _ in self.includes.get(name, ()):
                other = self.file(what, name)
                if other and other not in ways:
                    ways[other] = f"{ways[name]} -> {other}"
                    queue.append(other)
        return ways


def complaints_of_sight(graph, name, layer):
    for number, what, _ in graph.includes[name]:
        first = graph.file(what, name)
        if first is None or layer_of(first) == layer:
            continue  # a file of the same layer answers for itself
        told = set()
        for other, way in graph.seen(first).items():
            target = layer_of(other)
            if target == layer or target in told:
                continue
            door = DOORS.get((layer, target))
            if target not in MAY_SEE[layer]:
                told.add(target)
                yield number, f"{layer}/ must not see {target}/ ({way})"
            elif door and not re.search(door, other):
                told.add(target)
                yield number, f"{layer}/ sees of {target}/ only files that match {door} ({way})"


def complaints_of_cuda(graph, name, layer):
    for number, what, guarded in graph.includes[name]:
        if guarded or name.endswith((".cu", ".cuh")):
            continue
        if what.endswith(".cuh") or layer_of(graph.file(what, name) or "") in DEVICE_LAYERS:
            yield number, f"only .cu and .cuh files may include device code ({what})"
        if layer in CUDA_FREE and CUDA_HEADER.fullmatch(what):
            yield number, f"{layer}/ must build without CUDA ({what})"


def kernels_of_gpus(graph):
    """The files with kernels that no launcher beside them runs on the CPU machine."""
    bodies = (name for name in graph.paths if re.fullmatch(r"src/kernels/.*/kernel\.hpp", name))
    launched = {name.rpartition("/")[0] for name in graph.paths if name.startswith("src/kernels/") and
                any(what == "kernels/launch.hpp" for _, what, _ in graph.includes[name])}
    return {body for body in bodies if body.rpartition("/")[0] not in launched}


def complaints_of_tests(graph):
    of_gpus = kernels_of_gpus(graph)
    differ = {name for name, path in graph.paths.items() if name.startswith("tests/") and "__SANITIZE_" in path.read_text()}
    for name in graph.paths:
        if found := re.fullmatch(r"tests/(cpu|both|kernels)/\w+_test\.cpp", name):
            seen = graph.seen(name)
            if found[1] != "both" and (asking := next(filter(differ.__contains__, seen), None)):
                yield f"{name}:1: is another test with a sanitizer than without ({seen[asking]}): it belongs in tests/both/"
            kernel = next(filter(of_gpus.__contains__, seen), None)
            compiles_it = kernel is not None and "sim/context.hpp" in seen
            if found[1] != "kernels" and compiles_it:
                yield f"{name}:1: compiles a kernel that only GPUs run for the CPU machine ({seen[kernel]}): it belongs in tests/kernels/"
            of_the_exchange = name.startswith("tests/kernels/exchange_")
            if found[1] == "kernels" and not compiles_it and not of_the_exchange:
                yield f"{name}:1: compiles no kernel that only GPUs run for the CPU machine: it belongs in tests/cpu/"


def complaints(root):
    graph = include_graph(root)
    yield from complaints_of_tests(graph)
    for name in graph.paths:
        layer = layer_of(name)
        if not layer:
            yield f"{name}:1: no layer of this name: add it to MAY_SEE and to CMakeLists.txt"
            continue
        for number, text in (*complaints_of_sight(graph, name, layer), *complaints_of_cuda(graph, name, layer)):
            yield f"{name}:{number}: {text}"


def idle_arrows(root):
    """Arrows that no file of the tree uses, and layers without files."""
    graph = include_graph(root)
    used = {layer: set() for layer in MAY_SEE}
    for name in graph.paths:
        if layer := layer_of(name):
            used[layer] |= {layer, *map(layer_of, graph.seen(name))}
    for layer, targets in MAY_SEE.items():
        if not used[layer]:
            yield f"tools/check_layers.py:1: no file in {layer}/"
        for target in targets:
            if used[layer] and target not in used[layer]:
                yield f"tools/check_layers.py:1: nobody in {layer}/ sees {target}/: take the arrow away"


def drawing_complaints(page):
    """Every layer stands on a line above those it may see, so there is no cycle either."""
    drawing = re.search(r"^## Layers\n.*?```\n(.*?)```", page, flags=re.M | re.S)
    lines = drawing[1].splitlines() if drawing else []
    level = {layer: number for number, line in enumerate(lines) for layer in line.partition("//")[0].split()}
    for layer in MAY_SEE:
        if layer not in level:
            yield f"ARCHITECTURE.md:1: the drawing of the layers lacks {layer}"
    for layer, targets in MAY_SEE.items():
        for target in targets:
            if level.get(target, len(lines)) <= level.get(layer, -1):
                yield f"ARCHITECTURE.md:1: {layer} may see {target}, and is not drawn above it"


def kernels_without_a_place(root, page):
    """Folders with kernels that no link of the page leads to, or into."""
    for folder in sorted({path.parent.relative_to(root).as_posix() for path in tree.sources(root, {".cu"})
                          if path.is_relative_to(root / "src")}):
        if not re.search(rf"\]\({re.escape(folder)}(/[\w.]+)?\)", page):
            yield f"ARCHITECTURE.md:1: no link to {folder}/: say where its kernels stand among the others"


def main(arguments):
    root = pathlib.Path(arguments[0] if arguments else ".")
    page = (root / "ARCHITECTURE.md").read_text()
    return tree.report([*complaints(root), *idle_arrows(root), *drawing_complaints(page), *kernels_without_a_place(root, page)],
                       "layers")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
