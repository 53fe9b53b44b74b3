"""./dev where something is missing or wrong, and its adding up of results."""
import contextlib
import io
import os
import pathlib
import re
import subprocess

import pinned
import summary
from planted import planted_tree

DEV = pathlib.Path(pinned.__file__).parent.parent / "dev"
TESTS = DEV.parent / "tests"


def names_of_tests(folder):
    """What ctest may call the tests of a folder: of those with parameters, on so many ranks."""
    for path in sorted((TESTS / folder).glob("*_test.c*")):
        text = path.read_text()
        for kind, suite, name in re.findall(r"^(?:TYPED_)?TEST(_F|_P)?\(\s*(\w+),\s*(\w+)\)", text, re.MULTILINE):
            for prefix in re.findall(rf"^INSTANTIATE_TEST_SUITE_P\(\s*(\w+),\s*{suite},", text, re.MULTILINE) if kind == "_P" else []:
                yield from (f"{prefix}/{suite}.{name}/{parameter}" for n in range(1, 9) for parameter in (f"{n}", f"({n}, 4-byte object)"))
            if kind != "_P":
                yield f"{suite}.{name}"


def results(*cases):
    body = "".join(f'<testcase name="{name}" status="{status}" time="1"><system-out>{output}</system-out></testcase>'
                   for name, status, output in cases)
    return f"<testsuite>{body}</testsuite>"


class dev(planted_tree):
    def run_dev(self, *arguments, **environment):
        return subprocess.run([DEV, *arguments], env={**os.environ, **environment}, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL)

    def test_an_unknown_command_is_refused_with_the_list_of_known_ones(self):
        result = self.run_dev("tset")
        self.assertEqual(result.returncode, 2)
        self.assertIn("no command 'tset'", result.stderr)
        self.assertIn("doctor", result.stderr)

    def test_help_names_every_command(self):
        result = self.run_dev("help")
        self.assertEqual(result.returncode, 0)
        for command in ("demo", "test", "bench", "check", "doctor", "wheel", "docs", "format", "build"):
            self.assertIn(f"\n  {command} ", result.stdout)

    def test_missing_packages_that_may_not_be_installed_are_named_in_the_command_that_installs_them(self):
        self.plant("dpkg-query", '#!/bin/sh\ncase "$*" in *fmt*) exit 1;; *) echo installed;; esac\n').chmod(0o755)
        path = f"{self.root}:{os.environ['PATH']}"
        result = self.run_dev("demo", PATH=path, BATON_INSTALL_PACKAGES="0")
        self.assertEqual(result.returncode, 3)
        self.assertIn("sudo apt-get update && sudo apt-get install -y libfmt-dev\n", result.stderr)

    def test_a_measured_command_is_noted_with_its_seconds_and_keeps_its_exit_code(self):
        script = """source tools/dev/test.sh; notes=()
                    measured 'cpu: build' sh -c '(ulimit -t 2; while :; do :; done); exit 3' || echo $?
                    echo "${notes[@]}" """
        result = subprocess.run(["bash", "-euc", script], cwd=DEV.parent, capture_output=True, text=True)
        self.assertRegex(result.stdout, r"^3\ncpu: build took \d+ s and [1-9]\d* CPU seconds\n$")

    def test_what_is_only_read_leaves_an_empty_object_unless_a_compiler_refuses_it(self):
        good = self.plant("good.cpp", "template <class T> int of(T t) { return t + 1; }\nint f() { return of(1); }\n")
        bad = self.plant("bad.cpp", "template <class T> int of(T t) { return t.lap; }\nint f() { return of(1); }\n")
        for source, is_left in ((good, True), (bad, False)):
            made = source.with_suffix(".o")
            result = subprocess.run([DEV.parent / "cmake" / "only_read.sh", "c++", "-fsyntax-only", "-o", made, "-c", source], capture_output=True)
            self.assertEqual((result.returncode == 0, made.is_file()), (is_left, is_left))
        self.assertEqual(good.with_suffix(".o").stat().st_size, 0)

    def test_without_its_tools_there_is_no_wheel_and_a_note_says_so(self):
        script = f"""cd {DEV.parent}/tools/dev; source packages.sh; source wheel.sh; source test.sh; cd {self.root}; notes=() stages=() status=0 preset=cpu
                     wheel_stage; echo "${{#stages[@]}} $status ${{notes[@]}}" """
        result = subprocess.run(["bash", "-euc", script], cwd=self.root, env={**os.environ, "BATON_INSTALL_PACKAGES": "0"},
                                capture_output=True, text=True)
        self.assertRegex(result.stdout, r"^0 0 .*the Python package was neither built nor tested")
        self.assertIn("nanobind==", result.stderr)

    def stages(self, script, configure="", build="echo compiles"):
        """Of a tree whose builds are these."""
        self.plant("tools/dev/build.sh", f"configure() {{ echo sets up $1 >&2; {configure}\n}}\nbuild() {{ {build} >&2\n}}\n")
        for name in ("test.sh", "meanwhile.py"):
            self.plant(f"tools/dev/{name}", (DEV.parent / "tools" / "dev" / name).read_text())
        script = f"""source tools/dev/build.sh; source tools/dev/test.sh; has_room_for_both() {{ true; }}
                     notes=() together=() beside= is_whole=1 jobs=1; trap end_all_begun EXIT; {script}"""
        return subprocess.run(["bash", "-euc", script], cwd=self.root, capture_output=True, text=True, timeout=60)

    def test_most_is_tested_with_the_sanitizers_or_where_there_are_none_and_tests_of_gpus_built_where_some_are(self):
        said = """choose_labels() { not_here=; }; build_stage() { echo build "$@"; }; begin_build() { :; }; wheel_stage() { :; }; begin_packages() { :; }; begin_wheel() { :; }
                  house_stage() { echo house "$@"; }; test_stage() { echo test "$@"; }; python3() { :; }; preset=cpu; run_stages """
        whole = self.stages(said).stdout
        options = "-DBATON_SANITIZED_TESTS=OFF -DBATON_GPU_TESTS="
        self.assertIn(f"house cpu {options}ON\nbuild cpu all {options}ON\n", whole)
        self.assertIn(f"build cpu all {options}OFF\n", self.stages(said.replace("not_here=;", "not_here=gpu with_gpus=OFF;")).stdout)
        self.assertRegex(whole, r"build asan tests_cpu tests_kernels\ntest asan -L \S*\bkernels\b")
        self.plant("cmake", '#!/bin/sh\necho cmake "$@" >&2\n').chmod(0o755)
        quick = f"PATH={self.root}:$PATH; {said} --quick"
        self.assertEqual(self.stages(quick).stderr, "")
        self.plant("build/cpu/CMakeCache.txt", "BATON_SANITIZED_TESTS:BOOL=OFF\nBATON_GPU_TESTS:BOOL=OFF\n")
        result = self.stages(quick)
        self.assertEqual(result.stderr, "cmake -DBATON_SANITIZED_TESTS=ON build/cpu\ncmake -DBATON_GPU_TESTS=ON build/cpu\n")
        without = self.stages(quick.replace("not_here=;", "not_here=gpu with_gpus=OFF;"))
        self.assertEqual(without.stderr, "cmake -DBATON_SANITIZED_TESTS=ON build/cpu\n")
        self.assertIn("build cpu all\n", result.stdout)

    def test_what_one_build_leaves_out_the_other_runs(self):
        script = 'source tools/dev/test.sh; echo "$only_optimised"; echo "$only_sanitized"'
        optimised, sanitized = subprocess.run(["bash", "-euc", script], cwd=DEV.parent, capture_output=True, text=True).stdout.splitlines()
        both = list(names_of_tests("both"))
        self.assertGreater(len(both), 300)
        self.assertEqual([name for name in both if re.search(optimised, name) and re.search(sanitized, name)], [])
        left_out_by_the_only_one = [name for folders, only in ((("cpu", "kernels"), optimised), (("check", "gpu", "multi_gpu"), sanitized))
                                    for folder in folders for name in names_of_tests(folder) if re.search(only, name)]
        self.assertEqual(left_out_by_the_only_one, [])
        idle = [one for one in re.split(r"\|(?=\^|exchange)", f"{optimised}|{sanitized}") if not any(re.search(one, name) for name in both)]
        self.assertEqual(idle, [], "names of tests that there are not")

    def test_what_is_amiss_in_the_tree_is_told_before_anything_is_built_and_is_not_looked_at_again(self):
        said = """choose_labels() { not_here=gpu; }; build_stage() { echo build "$@"; }; begin_build() { :; }; wheel_stage() { :; }; begin_packages() { :; }; begin_wheel() { :; }
                  test_stage() { echo test "$@"; }; preset=cpu; run_stages """
        for name, code in (("run_tests.py", "import sys; print(*sys.argv[1:]); sys.exit({})"), ("summary.py", "import sys; print(*sys.argv[1:], sep='\\n')")):
            self.plant(f"tools/dev/{name}", code.format(0))
        well = self.stages(said).stdout
        self.assertRegex(well, r"^--build build/cpu .* -- -L \^tree\$ --no-tests=error\nbuild cpu all [^\n]*\ntest cpu -LE gpu\|\^tree\$ ")
        self.assertRegex(well, "\nhouse=.*/build/cpu/house.xml\n")
        selected = self.stages(said + "--quick -R words").stdout
        self.assertRegex(selected, r"^build cpu all\ntest cpu -LE gpu\|install --no-tests=ignore -R words\n")
        self.plant("tools/dev/run_tests.py", "import sys; sys.exit(1)")
        for words in ("", "--quick"):
            amiss = self.stages(said + words)
            self.assertEqual(amiss.returncode, 1)
            self.assertRegex(amiss.stdout, r"\nnote=nothing was built: [^\n]*\nhouse=")
            self.assertNotRegex(amiss.stdout, "(?m)^(build|test) ")

    def test_a_build_that_was_begun_is_waited_for_and_said_by_its_stage(self):
        result = self.stages("""begin_build asan tests_cpu; [[ ! -e ${folder_of[asan: build]}/spent ]]; build_stage asan tests_cpu
                                echo "${#folder_of[@]}"; echo "${notes[@]}" """)
        self.assertEqual(result.stderr, "dev: ===== asan: build\nsets up asan\ncompiles\n")
        self.assertRegex(result.stdout, r"^0\nasan: build took \d+ s after what it began beside, and \d+ CPU seconds\n$")
        self.assertEqual(result.returncode, 0)

    def test_a_build_that_was_begun_and_fails_ends_all_at_its_stage(self):
        for failing in ({"build": "echo it is bad; return 3"}, {"configure": "echo it is bad >&2; return 3"}):
            result = self.stages("""begin_build asan tests_cpu; touch "${folder_of[asan: build]}/go"; sleep 1; echo tests
                                    build_stage asan tests_cpu; echo goes on""", **failing)
            self.assertEqual((result.returncode, result.stdout), (3, "tests\n"))
            self.assertIn("it is bad", result.stderr)

    def test_nothing_is_begun_for_a_selection_or_without_memory_for_both(self):
        for otherwise in ("is_whole=0", "has_room_for_both() { false; }"):
            result = self.stages(f"""{otherwise}; begin_build asan tests_cpu; echo "begun: ${{#folder_of[@]}}"; build_stage asan tests_cpu
                                     echo "${{notes[@]}}" """)
            self.assertRegex(result.stdout, r"^begun: 0\nasan: build took \d+ s and \d+ CPU seconds\n$")

    def test_who_ends_early_ends_what_was_begun(self):
        result = self.stages("""begin_build asan tests_cpu; begin_build tsan tests_tsan; touch "${folder_of[asan: build]}/go"
                                until [[ -e here ]]; do sleep 0.05; done; echo "${folder_of[@]} ${process_of[@]}"; exit 5""",
                             build="touch here; sleep 50")
        paths = result.stdout.split()
        self.assertEqual((result.returncode, len(paths)), (5, 4))
        for path in (*paths[:2], *(f"/proc/{process}" for process in paths[2:])):
            self.assertFalse(pathlib.Path(path).exists())

    def test_a_wheel_is_built_beside_another_build_and_tested_beside_its_tests(self):
        self.plant("tools/dev/packages.sh", "")
        self.plant("tools/dev/run_tests.py", "import sys; print(*sys.argv[1:])")
        script = """preset=cpu stages=() status=0; source tools/dev/wheel.sh; begin_wheel; build_stage asan tests_cpu; wheel_stage; test_stage asan; echo "$status"
                    echo "${stages[@]}" """
        for does, code in (("echo makes", 0), ("return 1", 0), ("echo makes; false", 1)):
            self.plant("tools/dev/wheel.sh", f"""choose_wheel_folder() {{ wheel_folder=build/wheel; }}; has_wheel_tools() {{ {does.split(';')[0]} >&2; }}
                build_wheel() {{ {'false' if code else 'echo "builds $1" >&2'}; }}; ready_wheel_tests() {{ echo is ready >&2; }}; test_wheel() {{ echo tests; }}\n""")
            result = self.stages(script)
            after = next(line for line in result.stdout.splitlines() if line.startswith("--build"))
            if code or does == "return 1":
                self.assertRegex(after, "--beside= --$")
            else:
                self.assertRegex(after, "--beside=.*; choose_wheel_folder; test_wheel --$")
                self.assertIn("makes\nbuilds cpu\nis ready\n", result.stderr)
            self.assertEqual("wheel=" in result.stdout, does != "return 1")  # told as failed, as it has no results
            self.assertIn(f"\n{code}\n", result.stdout)


class adding_up(planted_tree):
    def add_up(self, text):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = summary.main([f"cpu={self.plant('results.xml', text)}"])
        return code, out.getvalue().strip().splitlines()

    def test_all_passed_is_success(self):
        code, lines = self.add_up(results(("a", "run", "")))
        self.assertEqual((code, lines[-1]), (0, "1 passed, 0 failed, 0 skipped"))

    def test_results_of_pytest_are_told_like_ctest_s(self):
        code, lines = self.add_up("""<testsuites><testsuite><testcase classname="t" name="a" time="1" />
            <testcase classname="t" name="b" time="1"><skipped message="no torch here">x.py:3: no torch here</skipped></testcase>
            <testcase classname="t" name="c" time="1"><failure message="assert 1">expected 2</failure></testcase>
            <testcase classname="t" name="d" time="1"><error message="fixture">is gone</error></testcase></testsuite></testsuites>""")
        self.assertEqual((code, lines[-1]), (1, "1 passed, 2 failed, 1 skipped"))
        self.assertIn("skipped: b [cpu]: x.py:3: no torch here", lines)
        self.assertEqual(lines[lines.index("FAILED: c [cpu]") + 1], "    expected 2")

    def test_one_failure_fails_and_is_named(self):
        code, lines = self.add_up(results(("a", "run", ""), ("b", "fail", "")))
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertIn("FAILED: b [cpu]", lines)

    def test_a_failure_is_told_from_where_it_begins(self):
        said = "".join(f"line {i}\n" for i in range(40)) + "x.cpp:3: Failure\nexpected 1\nsaw 2\n"
        _, lines = self.add_up(results(("a", "run", ""), ("b", "fail", said)))
        at = lines.index("FAILED: b [cpu]")
        self.assertEqual(lines[at + 1:at + 4], ["    x.cpp:3: Failure", "    expected 1", "    saw 2"])

    def test_of_a_failure_that_says_nowhere_where_it_begins_the_end_is_told(self):
        _, lines = self.add_up(results(("b", "fail", "".join(f"line {i}\n" for i in range(40)))))
        self.assertEqual([line for line in lines if line.startswith("    ")], [f"    line {i}" for i in range(28, 40)])

    def test_a_skip_is_told_with_its_reason(self):
        code, lines = self.add_up(results(("a", "run", ""), ("b", "notrun", "x.cpp:3: Skipped\nno GPU\n")))
        self.assertEqual((code, lines[-1]), (0, "1 passed, 0 failed, 1 skipped"))
        self.assertIn("skipped: b [cpu]: no GPU", lines)

    def test_no_test_at_all_fails(self):
        self.assertEqual(self.add_up(results())[0], 1)

    def test_results_that_were_never_written_fail(self):
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(summary.main([f"cpu={self.root}/nothing.xml"]), 1)
