"""One written setting, wherever it stands: a key of a config file, an argument of a call, an item of a dict.

Checks that compare settings across files ask here; what nobody wrote has no entry.
"""

import ast
import posixpath
import re
from collections.abc import Mapping

from gpudoctor.analysis.source.syntax import is_name, segment
from gpudoctor.analysis.source.syntax_edits import replace_node
from gpudoctor.model.evidence import Setting, SourceSpan
from gpudoctor.model.records import frozen
from gpudoctor.model.remedy import Edit, TextEdit
from gpudoctor.model.signs.configs import ConfigFile, ConfigKind, ConfigValue, Entry
from gpudoctor.model.signs.source import Call, Known, Script


@frozen(eq=False)
class Written:
    """One setting as somebody wrote it."""

    key: str
    """In the words of its file or call: `fp16.enabled`, `learning_rate`."""
    value: ConfigValue
    """None when `known` is false, too."""
    known: bool
    """Whether the value can be told without a run; false for `auto` and for templates."""
    sure: bool
    """False for an option's default: a launch line may say otherwise."""
    at: SourceSpan | Setting | None = None
    """Its place; None for an entry of a file, which knows its own."""
    file: ConfigFile | None = None
    entry: Entry | None = None
    script: Script | None = None
    call: Call | None = None
    """The call whose argument it is."""
    node: ast.expr | None = None
    """The value's expression in a script."""

    @property
    def place(self) -> SourceSpan | Setting:
        """Where it stands."""
        if self.at is not None:
            return self.at
        assert self.file is not None and self.entry is not None
        return self.file.setting(self.entry)

    def stands_at(self, place: SourceSpan | Setting) -> bool:
        """Whether it is the setting of this place."""
        if self.file is None or self.entry is None:
            return self.at == place
        return isinstance(place, Setting) and (place.path, place.key) == (self.file.path, self.entry.key)

    @property
    def number(self) -> int | float | None:
        """The value when it is a number (a boolean is none)."""
        return as_number(self.value) if self.known else None

    @property
    def on(self) -> bool:
        """Whether it is known to be switched on."""
        return self.known and (self.value is True or str(self.value).lower() in {"true", "yes", "on"})

    @property
    def off(self) -> bool:
        """Whether it is known to be switched off; null is off."""
        return self.known and (
            self.value is False or self.value is None or str(self.value).lower() in {"false", "no", "off"}
        )

    @property
    def word(self) -> str:
        """The value as a lower-case word: `torch.float16` and `"float16"` are both `float16`."""
        text = self.node_text if not self.known and self.node is not None else str(self.value)
        return text.rpartition(".")[2].strip("\"'").lower() if re.match(r"[\w.\"'-]+\Z", text) else ""

    @property
    def node_text(self) -> str:
        """The expression as written in a script, else ""."""
        if self.node is None or self.script is None:
            return ""
        return segment(self.script, self.node) or ast.unparse(self.node)

    @property
    def shown(self) -> str:
        """The value for a message."""
        if isinstance(self.value, bool):
            return str(self.value) if self.file is None else str(self.value).lower()
        if isinstance(self.value, int | float):
            return f"{self.value:g}" if isinstance(self.value, float) else str(self.value)
        return str(self.value) if self.known else self.node_text or "auto"

    def edit(self, value: str, *, python: str | None = None) -> Edit | None:
        """The edit that gives it another value, in a config's words and in Python's; None where none can."""
        if self.file is not None and self.entry is not None:
            return self.file.edit(self.entry, value)
        if self.script is None or self.node is None:
            return None
        text = value if python is None else python
        return replace_node(self.script, self.node, text) if is_literal(self.node) else None

    def rename(self, name: str) -> tuple[Edit, ...]:
        """The edits that keep the value under another name, in the same place; empty where none can."""
        if self.file is not None and self.entry is not None:
            edit = replace_key(self.file, self.entry.line, self.entry.column, self.entry.last, name)
            return () if edit is None else (edit,)
        for keyword in self.call.node.keywords if self.call is not None and self.script is not None else ():
            # One that stands in the call itself, and not in a `**kwargs`.
            if keyword.value is self.node and keyword.arg is not None and self.script is not None:
                return (replace_node(self.script, keyword, f"{name}={self.node_text}"),)
        return ()


def replace_key(file: ConfigFile, line: int, column: int, old: str, new: str) -> TextEdit | None:
    """Replace a key's text at its place; None where something else stands there."""
    lines = file.text.split("\n")
    at = lines[line - 1].find(old, max(column - 1, 0)) if line <= len(lines) else -1
    if at < 0 or at > column:  # one quote may stand before it
        return None
    return TextEdit(
        path=file.path,
        line=line,
        column=at + 1,
        end_line=line,
        end_column=at + 1 + len(old),
        new_text=new,
        expected=old,
    )


@frozen(eq=False)
class Setup:
    """The settings of one tool that belong together: a file, a section of one, a call, a dict."""

    kind: ConfigKind | None
    """The file's kind; None for source."""
    path: str
    line: int
    """1-based line of the call or of the section; 1 for a file."""
    title: str
    """For messages: `ds.json`, `train.py:41`."""
    items: Mapping[str, Written]
    """The tool's own key (dotted) to the setting."""
    whole: bool = False
    """Whether nothing can be set elsewhere: a plain call of `TrainingArguments` without `**kwargs`. What is not
    in it then has the tool's default."""
    file: ConfigFile | None = None
    script: Script | None = None
    call: Call | None = None
    class_name: str = ""
    """For a call: the library's class that it builds or extends, `transformers.TrainingArguments`."""

    def get(self, *keys: str) -> Written | None:
        """The first of these keys that is written."""
        return next((self.items[key] for key in keys if key in self.items), None)

    def on(self, *keys: str) -> Written | None:
        """The first of these keys that is switched on."""
        return next((self.items[key] for key in keys if key in self.items and self.items[key].on), None)

    def number(self, key: str) -> int | float | None:
        """The number under a key, None where it is not written or not known."""
        item = self.items.get(key)
        return None if item is None else item.number

    @classmethod
    def of_call(
        cls, script: Script, call: Call, class_name: str, items: Mapping[str, Written], *, whole: bool = False
    ) -> "Setup":
        """The settings that a call of a library's class is given."""
        return cls(
            kind=None,
            path=script.path,
            line=call.span.line,
            title=f"{base_name(script.path)}:{call.span.line}",
            items=items,
            whole=whole,
            script=script,
            call=call,
            class_name=class_name,
        )

    @classmethod
    def of_file(
        cls, file: ConfigFile, items: Mapping[str, Written], section: str = "", *, whole: bool = False
    ) -> "Setup":
        """The settings of a file, or of a section of it."""
        place, name = file.sections.get(section), base_name(file.path)
        return cls(
            kind=file.kind,
            path=file.path,
            line=place.line if place else 1,
            title=f"{name}, {section}" if section else name,
            items=items,
            whole=whole,
            file=file,
        )


def base_name(path: str) -> str:
    """The last part of a path."""
    return posixpath.basename(path.replace("\\", "/")) or path


def is_literal(node: ast.AST) -> bool:
    """Whether an expression is written out: `8`, `-1`, `["q", "v"]`, `torch.float16`.

    What a name, an option or a call gives was chosen elsewhere: an edit here would leave that choice without
    effect, and the program's other readers of it with another value.
    """
    if isinstance(node, ast.Attribute):
        return is_name(node.value, *_MODULES)
    if isinstance(node, ast.Dict | ast.List | ast.Tuple | ast.Set | ast.UnaryOp):
        parts = [item for item in ast.iter_child_nodes(node) if isinstance(item, ast.expr)]
        return all(map(is_literal, parts))
    return isinstance(node, ast.Constant)


_MODULES = frozenset({"torch", "th", "jnp", "np", "numpy"})
"""Modules whose attributes are constants: dtypes and the like."""


def as_number(value: object) -> int | float | None:
    """The value if it is a number."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def from_entry(file: ConfigFile, entry: Entry) -> Written:
    """A config's entry."""
    open_ended = entry.value == "auto" or entry.interpolated
    return Written(
        key=entry.key,
        value=None if open_ended else entry.value,
        known=not open_ended,
        sure=True,
        file=file,
        entry=entry,
    )


SURE = frozenset({"literal", "constant", "command line"})
"""Origins of a value that nobody can change without an edit or another launch line."""


def from_keyword(script: Script, call: Call, name: str) -> Written | None:
    """A keyword argument of a call, as far as it can be told."""
    value = call.keywords.get(name)
    if value is None:
        return None
    keyword = next((item for item in call.node.keywords if item.arg == name), None)
    given = value.value if isinstance(value, Known) else None
    plain: ConfigValue = given if isinstance(given, int | float | str) else None
    if isinstance(given, tuple):
        plain = tuple(item if not isinstance(item, tuple) else str(item) for item in given)
    return Written(
        key=name,
        value=plain,
        known=isinstance(value, Known) and value.value != "auto",
        sure=not isinstance(value, Known) or value.origin in SURE or value.origin.startswith("config "),
        at=call.span if keyword is None else script.span(keyword),
        script=script,
        call=call,
        node=None if keyword is None else keyword.value,
    )
