"""Runs of the scripts that measure another library, in a folder that stands for what is installed."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile


def said_with(script, point, modules):
    """Exit code and messages of the script for a file with this point, where these modules are found first."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        for name, source in modules.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(source)
        (path / "points.jsonl").write_text(json.dumps(point) + "\n")
        run = subprocess.run([sys.executable, script.__file__, path / "points.jsonl"], capture_output=True, text=True,
                             env={**os.environ, "PYTHONPATH": folder})
        return run.returncode, run.stderr


def assert_refuses_another_schema(test, script):
    code, message = said_with(script, {"schema": "something else"}, {"torch.py": ""})
    test.assertEqual(code, script.BAD_FILE)
    test.assertIn("schema 'something else', expected", message)
