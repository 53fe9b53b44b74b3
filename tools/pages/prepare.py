"""The sources of the site: the repository's own pages, with links that lead to where things are there, and pages that are made of sources."""
import os
import pathlib
import re
import shutil

import links
import reference

TOP = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")
MODULES = ("baton", "baton.attention", "baton.torch", "baton.transformers", "baton.deep_ep", "baton.engines.vllm", "baton.engines.sglang")
GUIDE = ("docs/how_fast", "docs/which_backend", "docs/python", "docs/python_on_gpus", "docs/torch", "docs/deep_ep", "docs/engines",
         "docs/migrating", "docs/two_hosts", "docs/limits")
INSIDE = ("ARCHITECTURE", "docs/protocols/README", "docs/checker", "docs/check_your_own", "docs/ring_strategies", "docs/kernels",
          "docs/decisions/README", "CONTRIBUTING", "SECURITY")
TREES = {"docs/decisions/README.md": "[0-9]*", "docs/protocols/README.md": "[a-z]*", "docs/results/README.md": "*/README"}
CONF = '''project = "baton"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "baton"
html_static_path = []
master_doc = "index"
exclude_patterns = ["_build"]
myst_heading_anchors = 6
myst_enable_extensions = []
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
pygments_style = "tango"
'''


def toctree(entries, caption="", is_glob=False):
    options = [*[f":caption: {caption}"] * bool(caption), ":hidden:", *[":glob:"] * is_glob]
    return "\n".join(["", "```{toctree}", *options, "", *entries, "```", ""])


class prepared:
    """What is written for Sphinx to read."""

    def __init__(self, root, out):
        self.root, self.out = root, out
        self.pages = [root / name for name in TOP] + sorted((root / "docs").rglob("*.md")) + [root / "python" / "README.md"]
        self.known = {page.resolve() for page in self.pages} | set((root / "include" / "baton").glob("*.hpp"))

    def place_of(self, path):
        """Where a file of the repository is in the site's sources, or None: a folder that has no page."""
        path = path.resolve()
        if path.is_dir():
            return self.place_of(path / "README.md") if (path / "README.md").exists() else None
        name = path.relative_to(self.root)
        if name == pathlib.Path("README.md"):
            return self.out / "index.md"
        if name.parts[:2] == ("include", "baton"):
            return self.out / "api" / "cpp" / f"{name.stem}.md"
        return self.out / name

    def rewritten(self, page):
        """Its text with links as they have to be in the site."""
        text, here = page.read_text(), self.place_of(page).parent
        plain, parts, end = links.without_code(text), [], 0
        for found in links.LINK.finditer(plain):
            target = found[3]
            if links.is_elsewhere(target) or target.startswith("#"):
                continue
            path, hash_, anchor = target.partition("#")
            to = (page.parent / path)
            place = self.place_of(to)
            if place is None or (not to.is_dir() and self.root not in to.resolve().parents):
                replaced = text[found.start(2):found.end(2)]
            else:
                if place.suffix != ".md" or to.resolve() not in self.known:
                    self.copy(to)
                replaced = f"{found[1]}[{text[found.start(2):found.end(2)]}]({os.path.relpath(place, here)}{hash_}{anchor})"
            parts += [text[end:found.start()], replaced]
            end = found.end()
        return "".join([*parts, text[end:]])

    def copy(self, path):
        path = path.resolve()
        if path.is_file() and path not in self.known:
            self.place_of(path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, self.place_of(path))

    def write(self, name, text):
        path = self.out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def write_all(self, drawn):
        """`drawn`: (run, name) of the results that there are drawings of, in docs/results/<run>/<name>.svg of the site's sources."""
        for page in self.pages:
            name, text = page.relative_to(self.root).as_posix(), self.rewritten(page)
            if name in TREES:
                text += toctree([TREES[name]], is_glob=True)
            run = page.parent.name
            if own := [stem for of, stem in drawn if of == run]:
                text += "\n## Drawn\n\n" + "\n\n".join(f"![{stem}]({stem}.svg)" for stem in own) + "\n"
            if name == "README.md":
                continue
            self.write(self.place_of(page).relative_to(self.out), text)
        self.write("index.md", self.rewritten(self.root / "README.md") + self.contents(drawn))
        self.write("plots.md", "# Results as drawings\n\n" + "\n\n".join(
            f"## {run}, {stem}\n\n[What was run](docs/results/{run}/README.md).\n\n![{run}, {stem}](docs/results/{run}/{stem}.svg)"
            for run, stem in drawn) + "\n")
        for module in MODULES:
            self.write(f"api/python/{module}.md", reference.python_page(self.root / "python", module, module))
        for header in sorted((self.root / "include" / "baton").glob("*.hpp")):
            self.write(f"api/cpp/{header.stem}.md", reference.header_page(header))
        self.write("conf.py", CONF)

    def contents(self, drawn):
        headers = sorted(path.stem for path in (self.root / "include" / "baton").glob("*.hpp"))
        return "".join([toctree(GUIDE, "Using it"), toctree(["plots", "docs/results/README"], "Measured"),
                        toctree([f"api/python/{module}" for module in MODULES], "Python"),
                        toctree([f"api/cpp/{header}" for header in headers], "C++"), toctree(INSIDE, "Inside"),
                        toctree(["python/README"], "More")])


def pages_in_no_contents(root):
    """Pages of docs/ that no list of contents leads to; those of its folders are found by their trees."""
    for page in sorted((root / "docs").glob("*.md")):
        if f"docs/{page.stem}" not in (*GUIDE, *INSIDE):
            yield f"docs/{page.name}: is in no contents of the site; name it in GUIDE or INSIDE of tools/pages/prepare.py"


def own_pages_that_site_lacks(root, out):
    """Pages of the repository that have no HTML."""
    for page in prepared(root, out).pages:
        name = page.relative_to(root).with_suffix(".html").as_posix()
        built = "index.html" if name == "README.html" else name
        if not (out / built).exists():
            yield f"{page.relative_to(root)}: has no page in the site"
