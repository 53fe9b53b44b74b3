"""The runner of ./dev test: programs that say what GoogleTest says, several tests to a process."""
import contextlib
import io
import json
import os
import xml.etree.ElementTree as xml

import run_tests
from planted import planted_tree

# A program with the tests of its script; each line of `said` is what happened in a process.
PROGRAM = """#!/usr/bin/env python3
import os, sys, time
chosen = sys.argv[-1].split("=", 1)[1].split(":")
def say(text): print(text, flush=True)
with open({said!r}, "a") as said: said.write(" ".join(chosen) + "\\n")
say("Note: Google Test filter = " + ":".join(chosen))
for name in [n for n in ("a.good", "a.bad", "a.skips", "a.dies", "a.sleeps", "b.good/0") if n in chosen]:
    say("[ RUN      ] " + name)
    if name == "a.bad": say("x.cpp:1: Failure\\nit is bad\\n[  FAILED  ] a.bad, where GetParam() = 3 (0 ms)")
    elif name == "a.skips": say("x.cpp:3: Skipped\\nno time\\n\\n[  SKIPPED ] a.skips (0 ms)")
    elif name == "a.dies": say("==1==ERROR: AddressSanitizer"); os._exit(1)
    elif name == "a.sleeps": time.sleep(60)
    else: say("words[       OK ] " + name + " (0 ms)")
if "{leaks}" in chosen: say("==1==ERROR: LeakSanitizer"); sys.exit(23)
sys.exit(1 if "a.bad" in chosen else 0)
"""


class running(planted_tree):
    def run_all(self, *names, leaks="nobody", alone=(), timeout=30.0, jobs=1):
        said = self.root / "said"
        program = self.plant("program", PROGRAM.replace("{said!r}", repr(str(said))).replace("{leaks}", leaks))
        program.chmod(0o755)
        listing = {"tests": [{"name": f"{name}  # 3", "command": [str(program), f"--gtest_filter={name}", "--gtest_also_run_disabled_tests"],
                              "properties": [{"name": "TIMEOUT", "value": timeout}]} for name in names]}
        tests = list(run_tests.tests_of(json.dumps(listing), jobs, set(alone)))
        results = []
        run_tests.run(tests, jobs, results.append)
        self.processes = said.read_text().splitlines()
        self.by_name = {one.name.split()[0]: one for one in results}
        return {name: one.outcome for name, one in self.by_name.items()}

    def setUp(self):
        super().setUp()
        self.addCleanup(setattr, run_tests.schedule, "size", run_tests.schedule.size)
        run_tests.schedule.size = lambda *_: run_tests.AT_MOST

    def test_tests_of_one_process_each_have_their_outcome_and_output(self):
        self.assertEqual(self.run_all("a.good", "a.bad", "a.skips", "b.good/0"),
                         {"a.good": "run", "a.bad": "fail", "a.skips": "notrun", "b.good/0": "run"})
        self.assertEqual(self.processes, ["a.good a.bad a.skips b.good/0"])
        self.assertIn("it is bad", self.by_name["a.bad"].output)
        self.assertNotIn("it is bad", self.by_name["a.good"].output)

    def test_those_after_one_that_ends_the_process_get_a_new_one(self):
        self.assertEqual(self.run_all("a.good", "a.dies", "b.good/0"), {"a.good": "run", "a.dies": "fail", "b.good/0": "run"})
        self.assertEqual(self.processes, ["a.good a.dies b.good/0", "b.good/0"])
        self.assertIn("AddressSanitizer", self.by_name["a.dies"].output)

    def test_a_leak_is_of_the_test_that_leaks_alone(self):
        self.assertEqual(self.run_all("a.good", "a.skips", "b.good/0", leaks="a.good"),
                         {"a.good": "fail", "a.skips": "notrun", "b.good/0": "run"})
        self.assertIn("LeakSanitizer", self.by_name["a.good"].output)

    def test_one_that_hangs_fails_and_the_next_runs(self):
        self.assertEqual(self.run_all("a.sleeps", "b.good/0", timeout=0.5), {"a.sleeps": "fail", "b.good/0": "run"})
        self.assertIn("ran out of time", self.by_name["a.sleeps"].output)

    def test_one_that_the_program_does_not_know_fails(self):
        self.assertEqual(self.run_all("a.good", "a.unknown"), {"a.good": "run", "a.unknown": "fail"})

    def test_those_that_are_alone_have_a_process_each(self):
        self.run_all("a.good", "a.skips", "b.good/0", alone=[("a", "good"), ("a", "skips")])
        self.assertEqual(sorted(self.processes), ["a.good", "a.skips", "b.good/0"])

    def test_cores_are_shared_from_when_those_that_want_them_alone_have_ended(self):
        tests = [run_tests.test(name, ["sleep", "0.1"], processors=wide, alone=True) for name, wide in (("a", 1), ("b", 2), ("c", 2))]
        happened = []
        run_tests.run(tests, 2, lambda one: happened.append(one.name), lambda: happened.append("shared"))
        self.assertEqual(happened, ["b", "c", "shared", "a"])

    def test_a_program_that_is_missing_fails_all_its_tests(self):
        results = []
        run_tests.run([run_tests.test("a.x", ["/nowhere", "--gtest_filter=a.x"])], 1, results.append)
        self.assertEqual([one.outcome for one in results], ["fail"])


class choosing(planted_tree):
    def test_what_forks_is_alone_by_itself_by_a_function_by_its_fixture_and_by_a_header(self):
        self.plant("support/forked_ranks.hpp", "inline int in_processes(\n    int n) {\n  return ::fork();\n}\n")
        self.plant("cpu/one_test.cpp", """#include "tests/support/forked_ranks.hpp"
void helps() {
  ::setenv("A", "b", 1);
}
int calls_it() {
  helps();
}
class fixture : public testing::Test {
  fixture() { ::setrlimit(1, 2); }
};
TEST(suite, forks) {
  ::fork();
}
TEST(suite, adds_up) {
  EXPECT_EQ(1 + 1, 2);
}
TEST_P(suite, is_helped) {
  calls_it();
}
TEST_F(fixture, is_there) {
}
TEST(suite, takes_processes) {
  in_processes(2);
}
TEST(suite,
     dies) {
  EXPECT_DEATH(f(), "");
}
""")
        self.plant("cpu/two_test.cpp", "TEST(in_processes, is_but_a_name_here) {}\n")
        self.assertEqual(run_tests.tests_alone(self.root), {("suite", "forks"), ("suite", "is_helped"), ("fixture", "is_there"),
                                                            ("suite", "takes_processes"), ("suite", "dies")})

    def test_the_suite_of_a_name_with_parameters_or_types(self):
        self.assertEqual([run_tests.suite_of(n) for n in ("s.t", "cpu/s.t/3", "s/0.t", "cpu/s/1.t/by_flags")], ["s"] * 4)
        self.assertEqual([run_tests.test_of(n) for n in ("s.t", "cpu/s.t/3", "s/0.t", "cpu/s/1.t/by_flags")], ["t"] * 4)

    def test_a_property_that_is_not_known_is_refused(self):
        listing = json.dumps({"tests": [{"name": "a", "command": ["a"], "properties": [{"name": "WILL_FAIL", "value": True}]}]})
        with self.assertRaisesRegex(ValueError, "WILL_FAIL"):
            list(run_tests.tests_of(listing, 2, set()))

    def test_what_needs_all_cores_begins_and_large_programs_go_first_in_ever_smaller_parts(self):
        tests = [run_tests.test(f"{program}.{i}", [program], alone=False) for program, n in (("small", 3), ("large", 100)) for i in range(n)]
        tests += [run_tests.test("short", ["short"], alone=True), run_tests.test("wide", ["wide"], processors=2, alone=True)]
        waiting = run_tests.schedule(tests, 2)
        self.assertIsNone(waiting.beside())  # as one wants all cores
        batches = list(iter(lambda: waiting.next(2), None))
        self.assertEqual([batches[0][0].name, batches[1][0].name, batches[-1][0].name], ["wide", "large.0", "short"])
        self.assertEqual(len(batches[1]), 6)
        self.assertEqual([len(batch) for batch in batches[-3:]], [1, 1, 1])
        self.assertEqual(sum(map(len, batches)), 105)

    def test_beside_those_that_have_cores_runs_one_after_the_other_that_has_a_process_of_its_own(self):
        at = {}
        tests = [run_tests.test(name, ["sh", "-c", f"date +%s%N; sleep 0.4; date +%s%N"], processors=cores, alone=True)
                 for name, cores in (("wide", 2), ("a", 1), ("b", 1), ("c", 1), ("d", 1))]
        run_tests.run(tests, 2, lambda one: at.setdefault(one.name, [int(word) / 1e9 for word in one.output.split()]))
        most = max(sum(begin <= each[0] < end for begin, end in at.values()) for each in at.values())
        self.assertEqual(most, 3)
        self.assertFalse([name for name, (begin, _) in at.items() if name != "wide" and begin < at["wide"][1]])

    def test_a_command_is_skipped_by_its_exit_code_alone(self):
        for code, outcome in ((0, "run"), (77, "notrun"), (1, "fail")):
            one = run_tests.test("a", ["sh", "-c", f"echo words; exit {code}"], skip_code=77)
            self.assertEqual([r.outcome for r in run_tests.run_command(one)], [outcome])

    def test_results_are_written_for_the_summary_whatever_bytes_a_test_printed(self):
        path = self.root / "results.xml"
        run_tests.write_results(path, [run_tests.result("a<b>", "fail", 1.5, "\x1b[0m & <x>\0")])
        case = xml.parse(path).getroot().find("testcase")
        self.assertEqual((case.get("name"), case.get("status"), case.findtext("system-out")), ("a<b>", "fail", "?[0m & <x>?"))

    def test_a_script_beside_the_tests_is_shown_and_none_of_them_and_fails_the_whole(self):
        self.plant("CTestTestfile.cmake", "add_test(a true)\n")
        path = self.root / "results.xml"
        for code in (0, 1):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                result = run_tests.main(["--build", str(self.root), "--results", str(path), f"--beside=echo it says so; exit {code}"])
            self.assertEqual(result, code)
            self.assertIn("it says so\n", out.getvalue())
            self.assertIn("1/1 passed", out.getvalue())
            self.assertEqual([case.get("name") for case in xml.parse(path).iter("testcase")], ["a"])

    def test_what_shares_the_machine_is_told_when_no_test_wants_it_alone(self):
        self.plant("CTestTestfile.cmake", "add_test(a true)\n")
        folders = [self.root / name for name in ("one", "other")]
        for folder in folders:
            folder.mkdir()
        with contextlib.redirect_stdout(io.StringIO()):
            run_tests.main(["--build", str(self.root), "--results", os.devnull, *(f"--shares={folder}" for folder in folders)])
        self.assertTrue(all((folder / "go").exists() for folder in folders))

    def test_no_tests_at_all_is_a_failure(self):
        with contextlib.redirect_stdout(io.StringIO()):
            self.plant("CTestTestfile.cmake", "")
            self.assertEqual(run_tests.main(["--build", str(self.root), "--results", os.devnull]), 1)
