import check_example_page
from planted import planted_tree

PAGE = "```cpp\nint a;\n```\nand\n```cpp\nint b;\n```\n```text\n42\n```\n"


class example_page(planted_tree):
    def test_a_page_that_shows_what_is_so_passes(self):
        self.assert_clean(check_example_page.source_complaints("page", PAGE, "int a;\nint x;\nint b;\n"))
        self.assert_clean(check_example_page.output_complaints("page", PAGE, "42\n"))

    def test_code_that_drifted_or_changed_places_is_caught(self):
        self.assert_caught(check_example_page.source_complaints("page", PAGE, "int a;\nlong b;\n"), "int b;")
        self.assert_caught(check_example_page.source_complaints("page", PAGE, "int b;\nint a;\n"), "order", "int b;")

    def test_another_output_is_caught(self):
        self.assert_caught(check_example_page.output_complaints("page", PAGE, "43\n"), "43")
        self.assert_caught(check_example_page.output_complaints("page", "no block", "42\n"), "shows no output")
