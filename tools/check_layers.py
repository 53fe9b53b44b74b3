#!/usr/bin/env python3
"""Fails if a file includes a layer it must not know about: check_layers.py [ROOT].

A layer is a folder. MAY_INCLUDE holds the arrows; see ARCHITECTURE.md for what each layer is.
"""
import pathlib
import re
import sys

import tree

MAY_INCLUDE = {  # layer: the layers it may include, itself apart
    "include/baton": [],
    "src/base": ["include/baton"],
    "src/exec": ["src/base"],
    "src/protocol": ["src/base", "src/exec", "include/baton"],
    "src/ptx": ["src/base", "src/exec"],
    "src/device": ["src/base", "src/exec", "src/ptx", "src/protocol", "include/baton"],
    "src/kernels": ["src/base", "src/exec", "src/protocol", "src/device", "src/ptx", "src/runtime", "include/baton", "sim"],
    "src/bootstrap": ["include/baton"],
    "src/runtime": ["src/base", "src/exec", "src/bootstrap", "include/baton", "sim"],
    "src/api": ["src/base", "src/exec", "src/kernels", "src/runtime", "src/bootstrap", "include/baton", "sim"],
    "sim": ["src/base", "src/exec", "include/baton"],
    "checks": ["include/baton", "src/base", "src/exec", "src/protocol", "src/kernels", "sim"],
    "cli": ["include/baton", "src/base", "src/exec", "src/runtime", "src/kernels", "sim", "checks"],
    "examples": ["include/baton", "sim"],
    "bench": ["include/baton", "cli"],
    "tests": ["include/baton", "src/base", "src/exec", "src/protocol", "src/ptx", "src/device", "src/kernels", "src/bootstrap",
              "src/runtime", "src/api", "sim", "checks", "cli"],
}
# Where a layer sees only some files of another: what a kernel is asked and how it is launched, never its body.
DOORS = {("src/api", "src/kernels"): r"kernels/\w+/(launch|endpoint|params|config|shape|token_format|cpu)\.hpp$",
         ("cli", "sim"): r"sim/check\.hpp$",
         ("examples", "sim"): r"sim/check\.hpp$",
         ("cli", "src/kernels"): r"kernels/(probe/probe|hand_off/(hand_off|params))\.hpp$"}
DEVICE_LAYERS = ("src/ptx", "src/device")  # .cu and .cuh alone may include these
CUDA_HEADER = re.compile(r"(cuda|cooperative_groups|nvrtc|device_launch_parameters)[\w/.]*|cuda/.*")
CUDA_FREE = ("include/baton", "src/base", "src/exec", "src/protocol", "sim", "checks", "examples")


def layer_of(path):
    """The layer of a file, or of what an #include names, which is seen from include/, src/ and the root."""
    for layer in MAY_INCLUDE:
        for prefix in (layer, layer.removeprefix("src/"), layer.removeprefix("include/")):
            if path.startswith(prefix + "/"):
                return layer
    return None


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


def complaints_of(path, layer):
    for number, name, guarded in includes(path):
        is_device_code = guarded or path.suffix in {".cu", ".cuh"}
        target = layer_of(name)
        if target and target != layer and target not in MAY_INCLUDE[layer]:
            yield number, f"{layer}/ must not include {target}/ ({name})"
        door = DOORS.get((layer, target))
        if door and not re.search(door, name):
            yield number, f"{layer}/ sees {target}/ only through files that match {door} ({name})"
        if not is_device_code and (name.endswith(".cuh") or target in DEVICE_LAYERS):
            yield number, f"only .cu and .cuh files may include device code ({name})"
        if layer in CUDA_FREE and not is_device_code and CUDA_HEADER.fullmatch(name):
            yield number, f"{layer}/ must build without CUDA ({name})"


def complaints(root):
    for path in tree.sources(root):
        name = path.relative_to(root).as_posix()
        layer = layer_of(name)
        if not layer:
            yield f"{name}:1: no layer of this name: add it to MAY_INCLUDE and to CMakeLists.txt"
            continue
        for number, text in complaints_of(path, layer):
            yield f"{name}:{number}: {text}"


if __name__ == "__main__":
    sys.exit(tree.report(complaints(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")), "layers"))
