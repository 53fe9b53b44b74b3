"""The project's own files, for the checks in this folder."""
import pathlib

SOURCE_FOLDERS = ("include", "src", "sim", "checks", "forecast", "cli", "python", "tests", "examples")
SOURCE_SUFFIXES = {".hpp", ".cpp", ".cuh", ".cu"}
TEXT_SUFFIXES = SOURCE_SUFFIXES | {".py", ".sh", ".cmake", ".md", ".txt", ".in", ".json", ".svg", ""}
TOP_FOLDERS = SOURCE_FOLDERS + ("bench", "tools", "cmake", "docs", ".ci")


def files(root, folders, suffixes):
    root = pathlib.Path(root)
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.suffix in suffixes and "__pycache__" not in path.parts:
                yield path


def sources(root, suffixes=SOURCE_SUFFIXES):
    """Every C++ and CUDA file."""
    return list(files(root, SOURCE_FOLDERS, suffixes))


def texts(root):
    """Every file that people read, results and data apart."""
    root = pathlib.Path(root)
    top = [path for path in sorted(root.iterdir())
           if path.is_file() and path.suffix in TEXT_SUFFIXES and path.name != ".git"]  # a file in git's further worktrees
    return top + list(files(root, TOP_FOLDERS, TEXT_SUFFIXES))


def report(complaints, what):
    """Prints the complaints; the exit code of a check."""
    complaints = list(complaints)
    print("\n".join(complaints) or f"{what}: ok")
    return 1 if complaints else 0
