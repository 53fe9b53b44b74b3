"""Reference pages, in Markdown, of what the sources say: docstrings of the Python package, and comments of the C++ headers.

Both are read as text: nothing has to be built or imported for it.
"""
import ast
import re
import textwrap

TABLE = re.compile(r"^ *[\w*\[\]., `()]{1,40}? {2,}\S")  # a name, a gap, what it is
INDENT = re.compile(r"^ {2,}\S")


def as_markdown(text):
    """A docstring's paragraphs; what is laid out in columns or as code stays as it is."""
    parts = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        lines = block.rstrip().splitlines()
        if all(INDENT.match(line) for line in lines):
            parts.append("```python\n" + textwrap.dedent("\n".join(lines)) + "\n```")
        elif any(TABLE.match(line) for line in lines):
            parts.append("```text\n" + "\n".join(lines) + "\n```")
        else:
            parts.append(escaped("\n".join(line.strip() for line in lines)))
    return "\n\n".join(parts)


def escaped(text):
    """What Markdown would take for more than text, outside of code."""
    return "".join(part if i % 2 else re.sub(r"([*<\[\]])", r"\\\1", part) for i, part in enumerate(re.split(r"(`[^`]*`)", text)))


def dedented(docstring):
    """As inspect.cleandoc has it."""
    first, *rest = docstring.expandtabs().splitlines() or [""]
    margin = min((len(line) - len(line.lstrip()) for line in rest if line.strip()), default=0)
    return "\n".join([first.strip(), *(line[margin:] for line in rest)])


def signature_of(node):
    if isinstance(node, ast.ClassDef):
        return f"class {node.name}" + (f"({', '.join(map(ast.unparse, node.bases))})" if node.bases else "")
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({ast.unparse(node.args)}){returns}"


def is_public(node):
    return isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_")


def member_text(member, owner, depth):
    """Of a function, a method or a property."""
    said = ast.get_docstring(member, clean=False)
    marks = [ast.unparse(mark) for mark in member.decorator_list]
    shown = member.name if "property" in marks else signature_of(member)
    kind = "property " if "property" in marks else "classmethod " if "classmethod" in marks else ""
    title = f"{'#' * depth} {owner}{member.name}\n\n```python\n{kind}{shown}\n```\n"
    return title + (f"\n{as_markdown(dedented(said))}\n" if said else "")


def class_text(node, owner, depth):
    parts = [f"{'#' * depth} {owner}{node.name}\n\n```python\n{signature_of(node)}\n```\n"]
    if said := ast.get_docstring(node, clean=False):
        parts.append(as_markdown(dedented(said)) + "\n")
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and (is_public(member) or (member.name == "__init__" and ast.get_docstring(member))):
            parts.append(member_text(member, f"{node.name}.", depth + 1))
    return "\n".join(parts)


def definitions(folder, module):
    """{name: where it is defined} of what a module offers: its __all__, or else whatever is public in it."""
    tree = ast.parse(module.read_text())
    here = {node.name: node for node in tree.body if is_public(node)}
    listed = next((ast.literal_eval(node.value) for node in tree.body
                   if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"), list(here))
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
            source = module.parent / (node.module.replace(".", "/") + ".py")
            if source.exists():
                there = {one.name: one for one in ast.parse(source.read_text()).body if is_public(one)}
                here.update({one.name: there[one.name] for one in node.names if one.name in there})
    return {name: here[name] for name in listed if name in here}


def python_page(folder, module, name):
    """Of one module of the package."""
    path = folder / (name.replace(".", "/") + ".py")
    path = path if path.exists() else folder / name.replace(".", "/") / "__init__.py"
    parts = [f"# {name}\n"]
    if said := ast.get_docstring(ast.parse(path.read_text()), clean=False):
        parts.append(as_markdown(dedented(said)) + "\n")
    for node in definitions(folder, path).values():
        parts.append(class_text(node, "", 2) if isinstance(node, ast.ClassDef) else member_text(node, "", 2))
    return "\n".join(parts)


NAMED = (re.compile(r"\b(?:struct|class|enum class|enum|concept|union)\s+(\w+)"), re.compile(r"\busing\s+(\w+)\s*="),
         re.compile(r"(~?\w+|operator[^\s(]+)\s*\("), re.compile(r"(\w+)\s*(?:=|;|\{)"))


def name_of(declaration):
    text = re.sub(r"template <[^\n]*>\n?|\[\[[^\]]*\]\]|//[^\n]*", "", declaration)
    for pattern in NAMED:
        if found := pattern.search(text):
            return found[1]
    return None


def header_page(path):
    """Of one header: each comment of `///`, and what it stands above."""
    lines, parts, comment, at = path.read_text().splitlines(), [], [], 0
    while at < len(lines):
        line = lines[at]
        if line.strip().startswith("///") and not line.startswith(" "):
            comment.append(line.strip()[3:].removeprefix(" "))
        elif comment:
            begins = at
            while at < len(lines) and lines[at].strip() and not lines[at].startswith("///"):
                at += 1
            shown = "\n".join(lines[begins:at])
            if shown.rstrip().endswith("{") or shown.count("{") > shown.count("}"):  # goes on behind an empty line
                while at < len(lines) and shown.count("{") > shown.count("}"):
                    shown += "\n" + lines[at]
                    at += 1
            if name := name_of(shown):
                parts.append(f"## {name}\n\n{comment_text(comment)}\n\n```cpp\n{shown}\n```\n")
            comment = []
            continue
        at += 1
    return f"# baton/{path.name}\n\n```cpp\n#include <baton/{path.name}>\n```\n\n" + "\n".join(parts)


def comment_text(lines):
    """Markdown, but for what a name in angle brackets would be, and what begins with @."""
    text = re.sub(r"<(?=\w)", r"\\<", "\n".join(lines))
    text = re.sub(r"^@throws +(\w+) *", r"- throws `\1`: ", text, flags=re.M)
    return re.sub(r"^@(\w+)", r"- \1:", re.sub(r"(?<!\n)\n(?=- throws)", "\n\n", text, count=1), flags=re.M)
