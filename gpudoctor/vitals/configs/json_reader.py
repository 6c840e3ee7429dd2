"""JSON with places: the standard library keeps no lines. Comments and trailing commas are read, with a note.

Iterative, so that nesting of any depth is no danger; one regular expression finds each token.
"""

import json
import re
from bisect import bisect_right
from typing import Final

from gpudoctor.lang import say
from gpudoctor.model.signs.configs import Scalar
from gpudoctor.vitals.configs.config_text import UnreadConfig
from gpudoctor.vitals.configs.tree import ConfigNode, ConfigPair

_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\n\f\v\ufeff]+)
    |(?P<comment>//[^\n]*|\#[^\n]*|/\*.*?\*/)
    |(?P<mark>[{}\[\]:,])
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<single>'(?:[^'\\\n]|\\.)*')
    |(?P<word>[^\s{}\[\]:,"'\#/]+)""",
    re.VERBOSE | re.DOTALL,
)
_WORDS: Final[dict[str, Scalar]] = {
    "true": True,
    "false": False,
    "null": None,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,400})\Z")
_FLOAT: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]{1,6})?\Z")

COMMENTS = say("JSON with comments: tools that use Python's json module reject it")
TRAILING = say("JSON with a trailing comma: tools that use Python's json module reject it")


def read_json(text: str) -> tuple[ConfigNode, tuple[str, ...]]:
    """The tree and notes. Raises `UnreadConfig` with the line."""
    return _Scanner(text).read()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0] + [match.end() for match in re.finditer("\n", text)]
        self.notes: dict[str, None] = {}
        self.stack: list[ConfigNode] = []
        self.root: ConfigNode | None = None
        self.expect = "value"
        """`value`, `value or ]`, `key`, `key or }`, `:`, `, or ]`, `, or }`, `end`."""
        self.key: ConfigPair | None = None

    def read(self) -> tuple[ConfigNode, tuple[str, ...]]:
        position = 0
        while position < len(self.text):
            match = _TOKEN.match(self.text, position)
            if match is None:
                raise self.error(position, say("a string is not closed") if self.text[position] in "\"'" else None)
            position = match.end()
            kind = match.lastgroup
            if kind == "comment":
                self.notes[COMMENTS] = None
            elif kind != "space":
                self.token(str(kind), match.group(), match.start(), match.end())
        if self.expect != "end" or self.root is None:
            raise self.error(
                len(self.text), say("the file ends too early") if self.text.strip() else say("the file is empty")
            )
        return self.root, tuple(self.notes)

    def token(self, kind: str, token: str, start: int, end: int) -> None:
        wants_value = self.expect in {"value", "value or ]"}
        if token in ("{", "[") and wants_value:
            node = ConfigNode(*self.place(start))
            node.pairs, node.items = ([], None) if token == "{" else (None, [])
            self.attach(node)
            self.stack.append(node)
            self.expect = "key or }" if token == "{" else "value or ]"
        elif token == ":" == self.expect:
            self.expect = "value"
        elif token == "," and self.expect in {", or }", ", or ]"}:
            self.expect = "key" if self.expect.endswith("}") else "value"
        elif token in ("}", "]") and self.stack and self.closes(token):
            node = self.stack.pop()
            node.end_line, node.end_column = self.place(end)
            self.after()
        elif self.expect in {"key", "key or }"} and kind == "string":
            line, column = self.place(start)
            self.key = ConfigPair(self.string(token, start), line, column, ConfigNode(line, column))
            self.expect = ":"
        elif wants_value:
            self.attach(ConfigNode(*self.place(start), *self.place(end), self.scalar(kind, token, start)))
            self.after()
        else:
            raise self.error(start)

    def closes(self, token: str) -> bool:
        """Whether a bracket may close here; after a comma it may, with a note."""
        node = self.stack[-1]
        if (token == "}") != (node.pairs is not None):
            return False
        trailing = self.expect == ("key" if node.pairs is not None else "value") and bool(node.pairs or node.items)
        if trailing:
            self.notes[TRAILING] = None
        return trailing or self.expect.endswith(token)

    def attach(self, node: ConfigNode) -> None:
        if not self.stack:
            self.root = node
            return
        parent = self.stack[-1]
        if parent.pairs is not None and self.key is not None:
            self.key.node = node
            parent.pairs.append(self.key)
            self.key = None
        elif parent.items is not None:
            parent.items.append(node)

    def after(self) -> None:
        pairs = self.stack[-1].pairs if self.stack else None
        self.expect = "end" if not self.stack else ", or }" if pairs is not None else ", or ]"

    def scalar(self, kind: str, token: str, start: int) -> Scalar:
        if kind == "string":
            return self.string(token, start)
        if kind == "word" and token in _WORDS:
            return _WORDS[token]
        if kind == "word" and _INTEGER.match(token):
            return int(token)
        if kind == "word" and _FLOAT.match(token):
            return float(token)
        raise self.error(start)

    def string(self, token: str, start: int) -> str:
        if "\\" not in token:
            return token[1:-1]
        try:
            return str(json.loads(token, strict=False))
        except ValueError:
            raise self.error(start, "a string has an escape that JSON does not allow") from None

    def place(self, position: int) -> tuple[int, int]:
        line = bisect_right(self.starts, position)
        return line, position - self.starts[line - 1] + 1

    def error(self, position: int, what: str | None = None) -> UnreadConfig:
        line, column = self.place(min(position, len(self.text)))
        if what is None:
            wanted = {
                "value or ]": say("a value or ]"),
                "value": say("a value"),
                "key": say("a key in double quotes"),
                "key or }": say("a key in double quotes or }}"),
                ":": say("a colon"),
                "end": say("nothing more"),
                ", or ]": say("a comma or ]"),
                ", or }": say("a comma or }}"),
            }[self.expect]
            found = self.text[position : position + 1]
            what = (
                say("expected {wanted}, found {found!r}", wanted=wanted, found=found)
                if found
                else say("expected {wanted}", wanted=wanted)
            )
        return UnreadConfig(say("line {line}, column {column}: {what}", line=line, column=column, what=what))
