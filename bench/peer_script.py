"""What the scripts have in common that measure another library at the points of a file of baton's."""
import argparse
import pathlib
import sys

WRONG, BAD_FILE, NOT_HERE = 1, 2, 4  # exit codes


def parser_of(description, out_help):
    """FILE [--out PEERS], to which a script adds options of its own."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("points", metavar="FILE", type=pathlib.Path)
    parser.add_argument("--out", metavar="PEERS", type=pathlib.Path, help=out_help)
    return parser


def points_of(read, path):
    """What `read` finds in FILE; None after it was said why there is nothing."""
    try:
        return read(path)
    except (OSError, ValueError) as why:
        print(why, file=sys.stderr)
        return None


def is_measured_elsewhere(path, gpus, here):
    """Whether one of baton's points is of another GPU than this, which is said then."""
    strange = [gpu for gpu in gpus if here not in gpu]
    if strange:
        print(f"{path}: measured on {strange[0]}, but this is {here}: times would not compare", file=sys.stderr)
    return bool(strange)
