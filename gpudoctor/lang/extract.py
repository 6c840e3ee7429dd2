"""Collects the templates of a source tree, and judges their translations."""

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Formatter

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from gpudoctor.lang.message import optional_template, plain_template, row_template

_MARKS = frozenset({"say", "tr", "template"})
_ROWS = {"advise": row_template, "remedy": plain_template}
_TEXTS = {"Remedy": ("title", "steps"), "Cost": ("breaks",), "Threshold": ("meaning",), "Visible": ("fault",)}
"""Arguments by name whose constants are texts without parts."""
_PLACED = {
    "Absent": 1,
    "CannotMend": 1,
    "Damaged": 1,
    "IncompleteError": 1,
    "NotSupported": 1,
    "ReadLimit": 3,
    "RefusedFile": 1,
    "Unavailable": 1,
    "Undeclared": 1,
    "UnknownCards": 1,
    "UnreadConfig": 1,
    "UsageError": 1,
    "add_argument_group": 1,
    "_no": 2,
    "missing": 2,
    "note_and_warning": 1,
}
"""How many positional arguments of a call are texts without parts."""
_TABLES = {
    "xid.json": ("name", "meaning", "advice"),
    "stacks.json": ("title",),
    "retired.json": ("answer",),
    "formula_phrases.json": ("text",),
    "library_warnings.json": ("text", "advice", "breaks"),
}
"""Files with rows of texts, and under which keys."""
_MESSAGES = "*messages.toml"
"""Files with messages of logs."""
_HELP = frozenset({"help", "description", "epilog"})
"""Arguments of argparse, whatever takes them; in `cli`."""
_FOR_PROGRAMS = frozenset({"agents", "testing"})
"""Topics whose texts stay in English: coding agents and authors of tests read them."""
NOTHING = "∅"
_MEASURED = frozenset({"Measurement", "finding"})
"""Calls whose `name` is that of a measurement."""
_IN_PAGES = re.compile(r'\b_\("([^"]+)"')
"""A text of a Jinja template."""
_FIELD = re.compile(r"\{\w")
_WORD = re.compile(r"[A-Za-z]{2,}")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_QUOTED = re.compile(r"`[^`]+`")
_HALF_WIDTH = re.compile("[\u3400-\u9fff][,;:!?](?!\\w)|[\u3400-\u9fff]\\.(?:$| )")
_CROWDED = re.compile("[\u3400-\u9fff][A-Za-z0-9`]|[A-Za-z0-9`][\u3400-\u9fff]")


@dataclass(frozen=True, slots=True)
class SourceTemplate:
    """A template in the source."""

    template: str
    topic: str
    """The folder below the package that it is in, which names its catalogue: `data`, `engine`."""
    place: str
    """The file, below the package."""


def templates(package: Path) -> Iterator[SourceTemplate]:
    """Every template below a package's folder, once, in the order of files and lines."""
    seen: set[str] = set()
    tables = [path for name in (*_TABLES, "*.toml") for path in package.rglob(name)]
    for path in sorted([*package.rglob("*.py"), *package.rglob("*.jinja"), *tables]):
        inside = path.relative_to(package)
        topic = inside.parts[0] if len(inside.parts) > 1 else inside.stem
        if topic in _FOR_PROGRAMS:
            continue
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".jinja":
            found: Iterator[str] = map(str, _IN_PAGES.findall(text))
        elif path.match(_MESSAGES):
            found = _in_messages(text)
        else:
            found = _in_table(path, text) if path in tables else _in_file(ast.parse(text), commands=topic == "cli")
        for template in found:
            if template not in seen and (template == "s" or _WORD.search(_literal(template))):
                seen.add(template)
                yield SourceTemplate(template, topic, inside.as_posix())


def faults(source: str, translation: str) -> list[str]:
    """What is wrong with a translation, a clause each: it must have the same fields, numbers and code."""
    if translation == NOTHING:
        return [] if not _FIELD.search(source) else ["leaves out fields"]
    try:
        ours, theirs = _fields(source), _fields(translation)
    except ValueError as error:
        return [f"is not a template: {error}"]
    found = []
    if set(ours) != set(theirs):
        found.append(f"has the fields {_listed(theirs)} instead of {_listed(ours)}")
    for what, pattern in (("numbers", _NUMBER), ("quoted code", _QUOTED)):
        there, here = (Counter(pattern.findall(_literal(source))), Counter(pattern.findall(_literal(translation))))
        if there != here:
            found.append(f"has the {what} {_listed(here)} instead of {_listed(there)}")
    if _HALF_WIDTH.search(translation):
        found.append("has half-width punctuation after a Chinese character")
    if _CROWDED.search(translation):
        found.append("has no blank between Chinese and Latin characters")
    return found


def _in_table(path: Path, text: str) -> Iterator[str]:
    """The texts of a JSON table's rows, or of the rows of advice in a TOML file."""
    advice = path.suffix == ".toml"
    wrap = row_template if advice else plain_template
    for rows in (tomllib if advice else json).loads(text).values():
        for row in rows if isinstance(rows, list) else ():
            for key in ("title", "steps") if advice else _TABLES[path.name]:
                value = row.get(key, ()) if isinstance(row, dict) else ()
                yield from map(wrap, (value,) if isinstance(value, str) else value)


def _in_messages(text: str) -> Iterator[str]:
    """The sentences of messages of logs, and their parts in square brackets."""
    for code, rows in tomllib.loads(text).items():
        for row in rows if code != "macros" else ():
            main, options = optional_template(row.get("say", ""))
            yield from (main, *options)


def _in_file(tree: ast.Module, *, commands: bool) -> Iterator[str]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        yield from _in_call(call, commands=commands)


def _in_call(call: ast.Call, *, commands: bool) -> Iterator[str]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in _MARKS and call.args:
        yield from _constants(call.args[0])
    elif name == "count" and len(call.args) == 2:
        yield from (f"{{number:,}} {noun}s" for noun in _constants(call.args[1]))
    elif name in _ROWS:
        for argument in call.args[1:]:
            yield from map(_ROWS[name], _constants(argument))
    elif name == "finding" and call.args:
        yield from map(plain_template, _constants(call.args[0]))
    for argument in call.args[: _PLACED.get(name, 0)]:
        yield from map(plain_template, _constants(argument))
    if name == "measured" and call.args:
        yield from map(_spoken_name, _constants(call.args[0]))
    for keyword in call.keywords:
        if name in _MEASURED and keyword.arg == "name":
            yield from map(_spoken_name, _constants(keyword.value))
        if name == "LogMessage" and keyword.arg == "text":
            for text in _constants(keyword.value):
                main, options = optional_template(text)
                yield from (main, *options)
        if keyword.arg in _TEXTS.get(name, ()) or (commands and keyword.arg in _HELP):
            yield from map(plain_template, _constants(keyword.value))


def _spoken_name(name: str) -> str:
    """The template of a measurement's name as people read it: `data_wait_share` is `data wait share`."""
    return plain_template(name.replace("_", " "))


def _constants(node: ast.expr) -> Iterator[str]:
    """The texts that an expression of constants may give."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Tuple | ast.List):
        for item in node.elts:
            yield from _constants(item)
    elif isinstance(node, ast.Starred):
        yield from _constants(node.value)
    elif isinstance(node, ast.IfExp):
        yield from _constants(node.body)
        yield from _constants(node.orelse)


def _fields(template: str) -> Counter[str]:
    """Fields with conversion and format specification."""
    return Counter(
        f"{{{field}{'!' + conversion if conversion else ''}{':' + spec if spec else ''}}}"
        for _, field, spec, conversion in Formatter().parse(template)
        if field is not None
    )


def _literal(template: str) -> str:
    """The template without its fields."""
    return "\0".join(literal for literal, _, _, _ in Formatter().parse(template))


def _listed(items: Counter[str]) -> str:
    return ", ".join(sorted(items.elements())) or "none"
