"""Links of the repository's Markdown, and of the pages that are made of it."""
import html.parser
import re
import urllib.parse

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", flags=re.M)
FENCE = re.compile(r"^(```|~~~).*?^\1", flags=re.M | re.S)
PAGES = ("*.md", "docs/**/*.md", "python/*.md", "data/**/*.md", "bench/**/*.md", "examples/**/*.md")


def is_elsewhere(target):
    return re.match(r"[a-z][a-z0-9+.-]*:", target) is not None


def pages_of(root):
    """Every page in Markdown that people read."""
    return sorted({path for pattern in PAGES for path in root.glob(pattern) if "build" not in path.relative_to(root).parts})


def without_code(text):
    """Fences and code in lines as blanks of their length."""
    text = FENCE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    return re.sub(r"`(?:[^`\n]|\n(?![ \t]*\n))*`", lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def anchors_of(text):
    """Of headings, as GitHub and MyST make them."""
    found = set()
    for title in HEADING.findall(FENCE.sub("", text)):
        title = LINK.sub(lambda link: link[2], title).lower()
        name = slug = re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-")
        count = 0
        while name in found:
            count += 1
            name = f"{slug}-{count}"
        found.add(name)
    return found


def links_of(text):
    """Targets of a page's links."""
    return [found[3] for found in LINK.finditer(without_code(text))]


def complaints(root):
    """Links of the repository's Markdown that lead nowhere, to no file or to no heading of a page, and those in headings."""
    for page in pages_of(root):
        name, text = page.relative_to(root), page.read_text()
        for heading in HEADING.findall(without_code(text)):
            if LINK.search(heading):  # Sphinx ends at one that leads to no page, when it makes the contents beside a page
                yield f"{name}: a heading with a link: {heading}"
        for target in links_of(text):
            if is_elsewhere(target):
                continue
            path, _, anchor = target.partition("#")
            to = page if not path else page.parent / urllib.parse.unquote(path)
            if not to.exists():
                yield f"{name}: leads nowhere: {target}"
            elif anchor and to.suffix == ".md" and anchor not in anchors_of(to.read_text()):
                yield f"{name}: leads to no heading: {target}"


class built_page(html.parser.HTMLParser):
    """What a page of HTML points to and can be pointed at."""

    def __init__(self, text):
        super().__init__()
        self.targets, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            if value and ((name == "href" and tag in ("a", "link")) or (name == "src" and tag in ("img", "script", "object"))):
                self.targets.append(value)


def built_complaints(site):
    """The same of a folder of HTML, after everything else has had its say."""
    pages = {path.resolve(): built_page(path.read_text(errors="replace")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        for target in dict.fromkeys(page.targets):
            if is_elsewhere(target) or target.startswith("//"):
                continue
            to, _, anchor = target.partition("#")
            to = urllib.parse.unquote(to.partition("?")[0])
            there = path if not to else (path.parent / to).resolve()
            if not there.exists():
                yield f"{path.relative_to(site.resolve())}: leads nowhere: {target}"
            elif anchor and there in pages and urllib.parse.unquote(anchor) not in pages[there].anchors:
                yield f"{path.relative_to(site.resolve())}: leads to no place there: {target}"
