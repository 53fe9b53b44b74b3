"""python -m baton: the program that the wheel carries."""
import os
import pathlib
import sys


def main() -> None:
    program = pathlib.Path(__file__).with_name("bin") / "baton"
    os.execv(program, ["baton", *sys.argv[1:]])


if __name__ == "__main__":
    main()
