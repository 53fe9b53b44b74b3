"""The one version of clang-format and clang-tidy that the checks use; others format and judge differently."""
import re
import shutil
import subprocess
import sys

VERSION = 14
SKIPPED = 77  # CTest's SKIP_RETURN_CODE


def find(tool):
    """Path of the pinned version, or None."""
    for name in (f"{tool}-{VERSION}", tool):
        path = shutil.which(name)
        if path:
            said = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
            if re.search(rf"version {VERSION}\.", said):
                return path
    return None


def find_or_skip(tool):
    path = find(tool)
    if not path:
        print(f"skipped: no {tool} {VERSION} here; to have it: sudo apt-get install {tool}-{VERSION}")
        sys.exit(SKIPPED)
    return path
