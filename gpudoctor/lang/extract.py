"""Extracts the templates of a source tree for Babel, and judges their translations."""

import ast
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from string import Formatter
from typing import IO, Any

from gpudoctor.lang.message import optional_template, plain_template, row_template
from gpudoctor.lang.rendering import NOTHING

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

METHODS = (
    ("agents/**", "ignore"),  # coding agents and authors of tests read English
    ("testing.py", "ignore"),
    ("**.py", f"{__name__}:python"),
    ("**.json", f"{__name__}:table"),
    ("**.toml", f"{__name__}:table"),
    ("**.jinja", f"{__name__}:page"),
)
"""Babel's mapping of the files below a package to extraction methods."""
OPTIONS = {"cli/**.py": {"commands": "yes"}}
"""Options of the methods: what argparse shows is a text in these files only."""
_MARKS = frozenset({"say", "tr", "template"})
_ROWS = {"advise": row_template, "remedy": plain_template}
_TEXTS: dict[str, tuple[str, ...]] = {"Remedy": ("title", "steps"), "Threshold": ("meaning",), "Visible": ("fault",)}
_TEXTS |= dict.fromkeys(("Cost", "finding"), ("breaks",))
"""Arguments by name whose constants are texts without parts."""
_ERRORS = """
Absent BadValue CannotMend Damaged Expired IncompleteError NoRoomError NotSupported RefusedFile
Unavailable Undeclared UnknownCards Unread UnreadConfig UsageError _Unreadable add_argument_group note_and_warning
"""
_PLACED = dict.fromkeys(_ERRORS.split(), 1) | {"ReadLimit": 3, "_no": 2, "missing": 2}
"""How many positional arguments of a call are texts; templates where arguments with names fill them."""
_TABLES = {
    "xid.json": ("name", "meaning", "advice"),
    "stacks.json": ("title",),
    "retired.json": ("answer",),
    "formula_phrases.json": ("text",),
    **dict.fromkeys(("conflicts.json", "launch_faults.json"), ("say", "breaks")),
    "library_warnings.json": ("text", "advice", "breaks"),
    "vocabulary.toml": ("words", "measured", "units", "causes"),
}
"""Files with texts, and under which keys."""
_WHOLE = frozenset({"vocabulary.toml", "conflicts.json", "launch_faults.json"})
"""Those whose texts are messages as they stand."""
_TOLD = frozenset({"tell", "write_line"})
"""Calls whose first argument is a text; in `cli`."""
_HELP = frozenset({"help", "description", "epilog"})
"""Arguments of argparse, whatever takes them; in `cli`."""
_MEASURED = frozenset({"Measurement", "finding"})
"""Calls whose `name` is that of a measurement."""
_IN_PAGES = re.compile(r'\b_\("([^"]+)"')
"""A text of a Jinja template."""
_FIELD = re.compile(r"\{\w")
_WORD = re.compile(r"[A-Za-z]{2,}")
_CODE = re.compile(r"[A-Z]+\d+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_QUOTED = re.compile(r"`[^`]+`")
_HALF_WIDTH = re.compile("[\u3400-\u9fff][,;:!?](?!\\w)|[\u3400-\u9fff]\\.(?:$| )")
_CROWDED = re.compile("[\u3400-\u9fff][A-Za-z0-9`]|[A-Za-z0-9`][\u3400-\u9fff]")


_Extracted = Iterator[tuple[int, None, str, list[str]]]


def python(file: IO[bytes], _keywords: object, _tags: object, options: Mapping[str, str]) -> _Extracted:
    """Babel's extraction method for a Python file."""
    for node in ast.walk(ast.parse(file.read())):
        if isinstance(node, ast.Call):
            yield from _extracted(_in_call(node, commands="commands" in options), node.lineno)


def table(file: IO[bytes], _keywords: object, _tags: object, options: object) -> _Extracted:  # noqa: ARG001
    """Babel's extraction method for a table in JSON or TOML: texts, messages of logs, or rows of advice."""
    name = os.path.basename(file.name)
    if name in _TABLES:
        data = json.load(file) if name.endswith(".json") else tomllib.load(file)
        texts = _in_table(data, _TABLES[name])
        yield from _extracted(texts if name in _WHOLE else map(plain_template, texts), 1)
    elif name.endswith("messages.toml"):
        yield from _extracted(_in_messages(tomllib.load(file)), 1)
    elif name.endswith(".toml"):
        data = tomllib.load(file)
        keys = {"title", "steps", *filter(_CODE.fullmatch, data)}
        yield from _extracted(map(row_template, _in_table(data, keys)), 1)


def page(file: IO[bytes], _keywords: object, _tags: object, options: object) -> _Extracted:  # noqa: ARG001
    """Babel's extraction method for a Jinja template."""
    yield from _extracted(_IN_PAGES.findall(file.read().decode()), 1)


def _in_messages(data: Mapping[str, Any]) -> Iterator[str]:
    """The sentences of messages of logs, and their parts in square brackets."""
    for code, rows in data.items():
        for row in rows if code != "macros" else ():
            main, options = optional_template(row.get("say", ""))
            yield from (main, *options)


def _extracted(templates: Iterable[str], line: int) -> _Extracted:
    """Templates as Babel wants them; those without a word of their own are not translated."""
    return ((line, None, text, []) for text in templates if text == "s" or _WORD.search(_literal(text)))


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


def _in_table(data: Any, keys: Collection[str], wanted: bool = False) -> Iterator[str]:
    """The texts under some keys, at any depth."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from _in_table(value, keys, wanted or key in keys)
    elif isinstance(data, list):
        for item in data:
            yield from _in_table(item, keys, wanted)
    elif wanted and isinstance(data, str):
        yield data


def _in_call(call: ast.Call, *, commands: bool) -> Iterator[str]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if (name in _MARKS or (commands and name in _TOLD)) and call.args:
        yield from _constants(call.args[0])
    elif name == "count" and len(call.args) == 2:
        yield from (f"{{number:,}} {noun}s" for noun in _constants(call.args[1]))
    elif name in _ROWS:
        for argument in call.args[1:]:
            yield from map(_ROWS[name], _constants(argument))
    elif name == "finding" and call.args:
        yield from map(plain_template, _constants(call.args[0]))
    for argument in call.args[: _PLACED.get(name, 0)]:
        yield from map(str if call.keywords else plain_template, _constants(argument))
    if name in ("measured", "Measurement") and call.args:
        yield from map(_spoken_name, _constants(call.args[0]))
    for argument in call.args[4:5] if name == "Threshold" else ():  # its meaning
        yield from map(plain_template, _constants(argument))
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
