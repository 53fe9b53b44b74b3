#!/usr/bin/env python3
"""Builds the site of baton's documents: build.py ROOT [--out OUT] [--no-plots] [--check]. `./dev docs` has what it needs: Sphinx, furo, myst-parser and
matplotlib, in build/docs/tools.

Fails on whatever Sphinx warns of, on a link within the site that leads to no file or no place there, and on a page that is missing. --check
reads everything and writes no HTML, in seconds; exit code 77 where the packages are not there.
"""
import argparse
import os
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import links
import prepare

OWN_TOOLS = pathlib.Path("build", "docs", "tools", "bin", "python")
SKIPPED = 77


def has_tools():
    try:
        import furo, myst_parser, sphinx  # noqa: F401, E401
        return True
    except ImportError:
        return False


def sphinx_complaints(source, out, builder):
    from sphinx.cmd.build import build_main
    arguments = ["-q", "-W", "--keep-going", "-j", "2", "-b", builder, "-d", str(out / "doctrees"), str(source), str(out / builder)]
    return ["Sphinx is not content: see above"] if build_main(arguments) != 0 else []


def build(root, out, with_plots, only_checks):
    """What is wrong with it, as lines."""
    if found := list(links.complaints(root)):
        return found
    source = out / "source"
    for folder in (source, out / "html", out / "doctrees"):
        shutil.rmtree(folder, ignore_errors=True)
    drawn = []
    if with_plots:
        import plots_of_results
        drawn = list(plots_of_results.draw_all(root, source / "docs" / "results"))
    prepare.prepared(root, source).write_all(drawn)
    if found := sphinx_complaints(source, out, "dummy" if only_checks else "html"):
        return found
    return [] if only_checks else [*links.built_complaints(out / "html"), *prepare.own_pages_that_site_lacks(root, out / "html")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--no-plots", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    root = options.root.resolve()
    if not has_tools():
        its_own = root / OWN_TOOLS
        if its_own.exists() and pathlib.Path(sys.prefix) != its_own.parent.parent:
            os.execv(its_own, [str(its_own), __file__, *sys.argv[1:]])
        print("the site was not built: Sphinx, furo and myst-parser are not here; `./dev docs` installs them into build/docs/tools")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        out = options.out.resolve() if options.out else pathlib.Path(folder)
        found = build(root, out, not (options.no_plots or options.check), options.check)
        made = f"{len(list((out / 'html').rglob('*.html')))} pages: {out / 'html' / 'index.html'}"
    print("\n".join(found) or ("site: ok" if options.check else made))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
