import check_readme
from planted import planted_tree

README = "```cpp\nfoo();\nbar();\n```\n"


class readme(planted_tree):
    def setUp(self):
        super().setUp()
        self.plant(check_readme.EXAMPLE, "int main() {\n  foo();\n  bar();\n}\n")

    def test_an_example_that_is_quoted_as_it_stands_passes(self):
        self.assert_clean(check_readme.example_complaints(self.root, README))

    def test_an_example_that_drifted_is_caught(self):
        self.assert_caught(check_readme.example_complaints(self.root, README.replace("bar", "baz")), "word for word")

    def test_a_decision_that_the_index_lacks_or_whose_number_is_taken_is_caught(self):
        self.plant("docs/decisions/README.md", "[0001](0001-a.md)")
        for name in ("0001-a.md", "0001-b.md"):
            self.plant(f"docs/decisions/{name}", "")
        found = list(check_readme.index_complaints(self.root))
        self.assert_caught(found, "0001-b.md", "not in")
        self.assert_caught(found, "0001-a.md", "another decision")
