import json
import pathlib

import check_blocks
from planted import planted_tree

PAGE = "# Page\n\n```sh\n./dev demo   # a model\nmake all && \\\n  make install\n```\n\n```python\nprint(1)\n```\n"
ENTRIES = [{"pages": "README.md", "language": "python", "run_by": "tests/run.py", "where": "\"PAGE\""},
           {"pages": "README.md", "command": "./dev demo", "run": True},
           {"pages": "*.md", "command": "make", "not_here": "it installs"}]


class blocks_of_pages(planted_tree):
    def setUp(self):
        super().setUp()
        self.plant("README.md", PAGE)
        self.plant("docs/results/old/README.md", "```sh\nwhat was\n```\n")
        self.plant("tests/run.py", "PAGES = [\"README.md\"]")

    def complaints(self, entries=ENTRIES):
        return check_blocks.list_complaints(self.root, entries, list(check_blocks.all_shown(self.root)))

    def commands(self, build):
        return check_blocks.run_complaints(self.root, ENTRIES, list(check_blocks.all_shown(self.root)), build)

    def test_blocks_that_all_have_an_entry_pass_and_those_of_results_need_none(self):
        self.assertEqual([one.text for one in check_blocks.all_shown(self.root)], ["./dev demo", "make all", "make install", "print(1)\n"])
        self.assert_clean(self.complaints())

    def test_a_new_block_is_caught(self):
        self.plant("docs/new.md", "```\na drawing\n```\n")
        self.assert_caught(self.complaints(), "docs/new.md:1", "found 0")

    def test_a_new_command_is_caught(self):
        self.plant("README.md", PAGE.replace("make all", "cmake ."))
        self.assert_caught(self.complaints(), "README.md:3: sh: cmake .", "found 0")

    def test_a_block_that_two_entries_speak_of_is_caught(self):
        self.assert_caught(self.complaints([*ENTRIES, {**ENTRIES[2], "command": "make all"}]), "make all", "found 2")

    def test_an_entry_that_nothing_needs_any_more_is_caught(self):
        self.plant("README.md", PAGE.replace("./dev demo", "make nothing"))
        self.assert_caught(self.complaints(), "no page shows ./dev demo")

    def test_an_entry_that_says_nothing_is_caught(self):
        self.assert_caught(self.complaints([*ENTRIES[:2], {"pages": "*.md", "command": "make"}]), "expected one of", "make")

    def test_a_page_that_its_test_has_forgotten_is_caught(self):
        self.plant("tests/run.py", "PAGES = []")
        self.assert_caught(self.complaints(), "README.md", "no '\"README.md\"' there")
        (self.root / "tests" / "run.py").unlink()
        self.assert_caught(self.complaints(), "there is no tests/run.py")

    def test_a_fence_that_does_not_end_is_caught(self):
        self.plant("docs/new.md", "```text\nand on\n")
        self.assert_caught(self.complaints(), "a fence that does not end")

    def test_a_program_that_a_command_names_is_there_and_has_its_options(self):
        self.plant("README.md", PAGE.replace("make all", "make 'x python bench/it.py --fast'"))
        self.assert_caught(self.complaints(), "there is no bench/it.py")
        self.plant("bench/it.py", "--slow")
        self.assert_caught(self.complaints(), "it.py has no --fast")
        self.plant("bench/it.py", "--fast")
        self.assert_clean(self.complaints())

    def test_a_command_that_fails_is_caught(self):
        self.plant("dev", "#!/bin/sh\necho no model\nexit 1\n").chmod(0o755)
        self.assert_caught(self.commands(self.root / "build" / "cpu"), "./dev demo", "failed with 1", "no model")
        self.assert_clean(self.commands(self.root))

    def test_the_program_is_that_of_the_build(self):
        self.plant("build/cpu/baton", "#!/bin/sh\necho \"$@\"\nexit 3\n").chmod(0o755)
        entry = {"pages": "README.md", "command": "baton check", "run": True}
        one = check_blocks.shown("README.md", 1, "sh", "baton check --protocol gate")
        self.assert_caught(check_blocks.run_complaints(self.root, [entry], [one], self.root / "build" / "cpu"), "failed with 3", "check --protocol gate")

    def test_the_list_of_this_tree_is_one(self):
        root = pathlib.Path(check_blocks.__file__).parents[1]
        self.assertEqual(set(json.loads((root / check_blocks.LIST).read_text())), {"blocks", "commands"})
