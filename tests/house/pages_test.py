import pathlib
import unittest

import links
import prepare
import reference
from planted import planted_tree


class links_of_pages(planted_tree):
    def test_a_link_that_leads_nowhere_is_caught(self):
        self.plant("README.md", "[x](docs/gone.md) [y](https://example.org) [z](dev) `[w](code.md)`\n```\n[v](fence.md)\n```\n")
        self.plant("dev", "")
        found = list(links.complaints(self.root))
        self.assert_caught(found, "README.md", "docs/gone.md")
        self.assertEqual(len(found), 1)

    def test_a_link_to_a_heading_that_is_not_there_is_caught(self):
        self.plant("docs/a.md", "# One\n\n[here](#one) [there](b.md#two-and-three) [no](b.md#four) [nor](#two)\n")
        self.plant("docs/b.md", "# Two and `three`\n")
        found = list(links.complaints(self.root))
        self.assert_caught(found, "docs/a.md", "b.md#four")
        self.assert_caught(found, "docs/a.md", "#two")
        self.assertEqual(len(found), 2)

    def test_a_heading_with_a_link_is_caught(self):
        self.plant("x.patch", "")
        self.plant("README.md", "# Said\n\n## Tried: [a patch](x.patch)\n\n```\n# [no heading](x.patch)\n```\n")
        found = list(links.complaints(self.root))
        self.assert_caught(found, "README.md", "a heading with a link", "Tried")
        self.assertEqual(len(found), 1)

    def test_code_over_two_lines_hides_no_link(self):
        self.plant("README.md", "`a\nb` ([file](gone.jsonl)) `c`")
        self.assert_caught(links.complaints(self.root), "gone.jsonl")

    def test_of_built_pages_both_are_caught(self):
        self.plant("index.html", '<a id="here" href="#here"></a><a href="other.html#no"></a><img src="gone.svg"><a href="https://e.org"></a>')
        self.plant("other.html", '<h1 id="yes"></h1><a href="index.html#here"></a>')
        found = list(links.built_complaints(self.root))
        self.assert_caught(found, "index.html", "other.html#no")
        self.assert_caught(found, "index.html", "gone.svg")
        self.assertEqual(len(found), 2)


class sources_of_the_site(planted_tree):
    def test_links_lead_to_where_things_are_in_it(self):
        self.plant("docs/page.md", "# P\n\n[r](../README.md) [h](../include/baton/x.hpp) [f](../src/y.cpp) [d](../src) [o](other.md#o)\n")
        self.plant("docs/other.md", "# O\n")
        self.plant("include/baton/x.hpp", "#pragma once\n")
        self.plant("src/y.cpp", "int y;\n")
        for name in (*prepare.TOP, "python/README.md"):
            self.plant(name, "# T\n")
        for module in prepare.MODULES:
            self.plant(f"python/{module.replace('.', '/')}/__init__.py", "")
        out = self.root / "out"
        prepare.prepared(self.root, out).write_all([("run", "name")])
        text = (out / "docs" / "page.md").read_text()
        self.assertIn("[r](../index.md) [h](../api/cpp/x.md) [f](../src/y.cpp) d [o](other.md#o)", text)
        self.assertEqual((out / "src" / "y.cpp").read_text(), "int y;\n")
        self.assertIn("docs/results/run/name.svg", (out / "plots.md").read_text())

    def test_a_page_that_was_not_built_is_caught(self):
        for name in (*prepare.TOP, "python/README.md", "docs/page.md"):
            self.plant(name, "# T\n")
        self.plant("html/index.html", "")
        found = list(prepare.own_pages_that_site_lacks(self.root, self.root / "html"))
        self.assert_caught(found, "docs/page.md", "no page")
        self.assertFalse([text for text in found if text.startswith("README.md")])

    def test_a_page_that_no_contents_lead_to_is_caught(self):
        self.plant("docs/lost.md", "# L\n")
        self.plant("docs/limits.md", "# L\n")
        found = list(prepare.pages_in_no_contents(self.root))
        self.assertEqual(len(found), 1)
        self.assert_caught(found, "docs/lost.md", "no contents")

    def test_contents_lead_to_every_page_of_the_tree(self):
        self.assert_clean(prepare.pages_in_no_contents(pathlib.Path(reference.__file__).parents[2]))


class reference_pages(planted_tree):
    def test_what_a_module_offers_is_there_and_nothing_else(self):
        self.plant("pkg/__init__.py", '"""A package."""\nfrom ._inner import run, thing\n__all__ = ["run", "thing"]\n')
        self.plant("pkg/_inner.py", 'def run(a: int, *, b: str = "x") -> int:\n    """Runs `a_b` *now*.\n\n    a  what\n    """\n\n\n'
                   'def hidden():\n    """No."""\n\n\nclass thing:\n    """A thing.\n\n        thing()\n\n    That is all.\n    """\n\n    @property\n'
                   '    def size(self) -> int:\n        """Of it."""\n\n    def _no(self): ...\n')
        page = reference.python_page(self.root, "pkg", "pkg")
        for part in ("# pkg\n\nA package.", "## run\n", "run(a: int, *, b: str='x') -> int", "Runs `a_b` \\*now\\*.", "```text\na  what\n```",
                     "### thing.size\n", "```python\nthing()\n```"):
            self.assertIn(part, page)
        for part in ("hidden", "_no"):
            self.assertNotIn(part, page)

    def test_a_header_says_what_stands_above_its_declarations(self):
        page = reference.header_page(self.plant("x.hpp", "#pragma once\n\n/// What it is, of <int>.\n/// @throws wrong  if so\ntemplate <class T>\n"
                                                "struct point {\n  int x;\n\n  /// Own.\n  int y;\n};\n\n/// Sums.\nint sum(point<int> p);\n"))
        for part in ("# baton/x.hpp", "## point\n", "What it is, of \\<int>.", "- throws `wrong`: if so", "  int y;\n};", "## sum\n\nSums."):
            self.assertIn(part, page)

    def test_every_header_and_module_of_the_tree_has_something_to_say(self):
        root = pathlib.Path(reference.__file__).parents[2]
        for header in (root / "include" / "baton").glob("*.hpp"):
            if header.name != "baton.hpp":
                self.assertIn("\n## ", reference.header_page(header), header)
        for module in prepare.MODULES:
            self.assertIn("\n## ", reference.python_page(root / "python", module, module), module)


if __name__ == "__main__":
    unittest.main()
