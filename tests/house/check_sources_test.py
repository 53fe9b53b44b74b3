"""The checks that need a compiler or a formatter, on one good and one bad file each."""
import json
import pathlib
import shutil
import subprocess
import sys
import unittest

import pinned
from planted import planted_tree

TOOLS = pathlib.Path(pinned.__file__).parent
PROJECT = TOOLS.parent


def run(root, tool, *arguments):
    return subprocess.run([sys.executable, str(TOOLS / tool), str(root), *arguments], capture_output=True, text=True)


class headers(planted_tree):
    def test_a_header_that_includes_what_it_names_passes(self):
        self.plant("include/baton/good.hpp", "#pragma once\n#include <cstdint>\nstd::int32_t f();\n")
        self.assertEqual(run(self.root, "check_headers.py").returncode, 0)

    def test_a_header_that_leans_on_its_includer_is_caught(self):
        self.plant("include/baton/bad.hpp", "#pragma once\nstd::int32_t f();\n")
        result = run(self.root, "check_headers.py")
        self.assertEqual(result.returncode, 1)
        self.assertIn("include/baton/bad.hpp", result.stdout)

    def test_a_header_that_cannot_be_included_twice_is_caught(self):
        self.plant("src/base/twice.hpp", "struct s {};\n")
        self.assertIn("no #pragma once", run(self.root, "check_headers.py").stdout)


@unittest.skipUnless(pinned.find("clang-format"), "no pinned clang-format here")
class formatting(planted_tree):
    def test_an_unformatted_file_is_caught_and_fixed(self):
        shutil.copy(PROJECT / ".clang-format", self.root)
        path = self.plant("src/base/bad.hpp", "int  f( int a ){return a;}\n")
        self.assertEqual(run(self.root, "check_format.py").returncode, 1)
        self.assertEqual(run(self.root, "check_format.py", "--fix").returncode, 0)
        self.assertEqual(path.read_text(), "int f(int a) {\n  return a;\n}\n")
        self.assertEqual(run(self.root, "check_format.py").returncode, 0)


@unittest.skipUnless(pinned.find("clang-tidy"), "no pinned clang-tidy here")
class tidy(planted_tree):
    def judged(self, text):
        shutil.copy(PROJECT / ".clang-tidy", self.root)
        source = self.plant("src/base/a.cpp", text)
        self.plant("build/compile_commands.json", json.dumps(
            [{"directory": str(self.root), "file": str(source), "command": f"g++ -std=c++20 -c {source}"}]))
        return run(self.root, "check_tidy.py", "--build", str(self.root / "build"))

    def test_names_as_agreed_pass(self):
        result = self.judged("#include <source_location>\nstruct ring_slot {\n  int lap = 0;\n};\n"
                             "std::source_location here() { return std::source_location::current(); }\n")
        self.assertEqual(result.returncode, 0, result.stdout)

    def test_a_name_in_another_style_is_caught(self):
        result = self.judged("struct RingSlot {\n  int lap = 0;\n};\n")
        self.assertEqual(result.returncode, 1)
        self.assertIn("RingSlot", result.stdout)

    def test_a_name_is_caught_beside_sources_that_do_not_compile_together(self):
        shutil.copy(PROJECT / ".clang-tidy", self.root)
        sources = [self.plant(f"src/base/{name}.cpp", text) for name, text in {
            "a": "static int limit() { return 1; }\nint a() { return limit(); }\n",
            "b": "static int limit() { return 2; }\nint b() { return limit(); }\nstruct RingSlot {};\n",
            "c": "static int limit() { return 3; }\nint c() { return limit(); }\n"}.items()]
        self.plant("build/compile_commands.json", json.dumps(
            [{"directory": str(self.root), "file": str(s), "command": f"g++ -std=c++20 -c {s}"} for s in sources]))
        result = run(self.root, "check_tidy.py", "--build", str(self.root / "build"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("RingSlot", result.stdout)
        self.assertNotIn("redefinition", result.stdout)

    def test_a_name_is_caught_in_a_source_that_the_build_compiles_together_with_others(self):
        shutil.copy(PROJECT / ".clang-tidy", self.root)
        source = self.plant("src/base/a.cpp", "struct RingSlot {};\n")
        unity = self.plant("build/a.dir/Unity/unity_0_cxx.cxx", f'/* generated */\n#include "{source}"\n')
        self.plant("build/compile_commands.json", json.dumps(
            [{"directory": str(self.root), "file": str(unity), "command": f"g++ -std=c++20 -c {unity}"}]))
        result = run(self.root, "check_tidy.py", "--build", str(self.root / "build"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("RingSlot", result.stdout)

    def test_a_name_is_caught_in_an_example_that_is_read_with_others(self):
        shutil.copy(PROJECT / ".clang-tidy", self.root)
        sources = [self.plant(f"examples/{name}.cpp", text) for name, text in {
            "a": "#include <cstdio>\nnamespace {\nint limit() { return 1; }\n}\nint main() { return std::puts(\"\") + limit(); }\n",
            "b": "#include <vector>\nnamespace {\nint limit() { return HERE; }\nstruct RingSlot { std::vector<int> laps; };\n}\n"
                 "int main() { return limit(); }\n"}.items()]
        self.plant("build/compile_commands.json", json.dumps(
            [{"directory": str(self.root), "file": str(s), "command": f"g++ -std=c++20 {more} -c {s}"}
             for s, more in zip(sources, ("-DTHERE=1", "-DHERE=2"))]))
        result = run(self.root, "check_tidy.py", "--build", str(self.root / "build"))
        self.assertEqual(result.returncode, 1)
        self.assertEqual([line for line in result.stdout.splitlines() if "error:" in line and "RingSlot" not in line], [], result.stdout)
        self.assertIn("examples/b.cpp:4:8", result.stdout)

    def test_a_function_of_100_lines_is_caught(self):
        result = self.judged("int f(int a) {\n" + "  a += 1;\n" * 100 + "  return a;\n}\n")
        self.assertIn("function-size", result.stdout)

    def test_a_function_of_seven_parameters_is_caught(self):
        result = self.judged("int f(int a, int b, int c, int d, int e, int g, int h) { return a + b + c + d + e + g + h; }\n")
        self.assertIn("function-size", result.stdout)

    def test_a_source_that_does_not_parse_is_caught(self):
        self.assertEqual(self.judged("int f( {\n").returncode, 1)
