"""What the scripts that draw benchmarks have in common."""
import argparse
import json
import pathlib


def read_points(path, schema):
    """The lines of a benchmark's JSON file. @raises ValueError  one is of another schema"""
    points = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    if strange := [p.get("schema") for p in points if p.get("schema") != schema]:
        raise ValueError(f"{path}: schema {strange[0]!r}, expected {schema!r}")
    return points


def run(description, out, read, draw):
    """The command line FILE [--out OUT]: reads points, draws them, says where; what the script exits with."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("points", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(out))
    options = parser.parse_args()
    points = read(options.points)
    if not points:
        return f"{options.points}: no points"
    draw(points, options.out)
    print(options.out)
    return 0
