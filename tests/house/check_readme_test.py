import check_readme
from planted import planted_tree

README = "```sh\n./dev test  # all of it\n```\n```cpp\nfoo();\nbar();\n```\n"


class readme(planted_tree):
    def setUp(self):
        super().setUp()
        self.plant(check_readme.EXAMPLE, "int main() {\n  foo();\n  bar();\n}\n")

    def test_an_example_that_is_quoted_as_it_stands_passes(self):
        self.assert_clean(check_readme.example_complaints(self.root, README))

    def test_an_example_that_drifted_is_caught(self):
        self.assert_caught(check_readme.example_complaints(self.root, README.replace("bar", "baz")), "word for word")

    def test_a_command_that_nobody_tests_is_caught(self):
        untested = README.replace("./dev test", "make install")
        self.assert_caught(check_readme.command_complaints(self.root, untested, self.root), "nobody tests `make install`")

    def test_a_command_that_fails_is_caught(self):
        self.plant("dev", "#!/bin/sh\necho no model\nexit 1\n").chmod(0o755)
        failing = README.replace("./dev test", "./dev demo")
        found = check_readme.command_complaints(self.root, failing, self.root / "build" / "cpu")
        self.assert_caught(found, "./dev demo", "failed with 1", "no model")

    def test_a_decision_that_the_index_lacks_or_whose_number_is_taken_is_caught(self):
        self.plant("docs/decisions/README.md", "[0001](0001-a.md)")
        for name in ("0001-a.md", "0001-b.md"):
            self.plant(f"docs/decisions/{name}", "")
        found = list(check_readme.index_complaints(self.root))
        self.assert_caught(found, "0001-b.md", "not in")
        self.assert_caught(found, "0001-a.md", "another decision")
