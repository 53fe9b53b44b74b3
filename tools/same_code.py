#!/usr/bin/env python3
"""Whether two cubins have the same machine code: same_code.py BEFORE.cubin AFTER.cubin. Fails where a kernel differs.

Kernels are told apart by name; what their parameters say of the window (protocol/peer_window.hpp) is left out of it. Builds keep
cubins under listings/.
"""
import pathlib
import struct
import subprocess
import sys


def sections(cubin):
    """{mangled name: bytes} of the kernels of a cubin, which is an ELF file with a section .text.NAME for each."""
    data = pathlib.Path(cubin).read_bytes()
    table, = struct.unpack_from("<Q", data, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", data, 0x3a)
    table_rows = [struct.unpack_from("<IIQQQQ", data, table + i * size) for i in range(count)]
    names = table_rows[names_at][4]
    found = {}
    for name, _, _, _, begin, length in table_rows:
        text = data[names + name:data.index(b"\0", names + name)].decode()
        if text.startswith(".text."):
            found[text.removeprefix(".text.")] = data[begin:begin + length]
    return found


def code(cubin):
    """{name: bytes} of the kernels of a cubin."""
    found = sections(cubin)
    plain = subprocess.run(["c++filt"], input="\n".join(found), capture_output=True, text=True, check=True).stdout.splitlines()
    return {name.replace(", baton::peer_stores", "").replace("<baton::peer_stores>", "").replace(" >", ">"): text
            for name, text in zip(plain, found.values())}


def main(before, after):
    old, new = code(before), code(after)
    for name in sorted(old.keys() ^ new.keys()):
        print(f"only in {before if name in old else after}: {name}")
    different = [name for name in old.keys() & new.keys() if old[name] != new[name]]
    for name in sorted(different):
        print(f"differs, {len(old[name])} and {len(new[name])} bytes: {name}")
    print(f"{len(old.keys() & new.keys()) - len(different)} of {len(old)} kernels have the same machine code")
    return int(bool(different or old.keys() ^ new.keys()))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
