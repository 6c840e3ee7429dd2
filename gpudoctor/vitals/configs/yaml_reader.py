"""YAML with places, from the parser's events: no object is built, no alias expanded, no tag obeyed.

Training tools read YAML with PyYAML, and so do we, by its parser in C where there is one. Scalars are resolved
here, by YAML 1.1's words as those tools do, with `1e-5` a number as people mean it.
"""

import re
from itertools import islice
from typing import Any, Final

from gpudoctor.lang import say
from gpudoctor.model.signs.configs import Scalar
from gpudoctor.vitals.configs.config_text import TOO_DEEP, UnreadConfig
from gpudoctor.vitals.configs.tree import ConfigNode, ConfigPair

MAX_EVENTS = 1_000_000
DEEPEST = 500

_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE: Final = frozenset({"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
_FALSE: Final = frozenset({"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
_INTEGER: Final = re.compile(r"[-+]?(0|[1-9][0-9_]*)\Z")
_BASED: Final = re.compile(r"[-+]?0([0-7_]+|x[0-9a-fA-F_]+|b[01_]+)\Z")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]{1,6})?\Z")
_SPECIAL: Final = re.compile(r"(?P<sign>[-+]?)\.(?P<what>inf|Inf|INF|nan|NaN|NAN)\Z")


def read_yaml(text: str) -> list[ConfigNode]:
    """The trees of the documents, empty ones left out. Raises `UnreadConfig` with the line."""
    import yaml  # type: ignore[import-untyped, unused-ignore]

    builder = _Builder()
    try:
        for event in islice(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)), MAX_EVENTS):
            builder.take(event)
    except yaml.YAMLError as error:
        raise UnreadConfig(_sentence(error)) from error
    except RecursionError as error:
        raise UnreadConfig(TOO_DEEP) from error
    return builder.documents


class _Builder:
    """Events to trees, without recursion."""

    def __init__(self) -> None:
        self.documents: list[ConfigNode] = []
        self.anchors: dict[str, ConfigNode] = {}
        self.stack: list[tuple[ConfigNode, list[ConfigNode]]] = []
        """Open collections, each with the key that waits for its value (a list of none or one)."""

    def take(self, event: Any) -> None:
        name = type(event).__name__
        if name == "ScalarEvent":
            self.add(self.scalar(event), event.anchor)
        elif name in {"MappingStartEvent", "SequenceStartEvent"}:
            node = ConfigNode(event.start_mark.line + 1, event.start_mark.column + 1)
            if name.startswith("Mapping"):
                node.pairs = []
            else:
                node.items = []
            self.add(node, event.anchor)
            self.stack.append((node, []))
            if len(self.stack) > DEEPEST:  # the parser's own work grows with the square of the depth
                raise UnreadConfig(TOO_DEEP)
        elif name in {"MappingEndEvent", "SequenceEndEvent"}:
            node, _ = self.stack.pop()
            self.finish(node, event)
        elif name == "AliasEvent":
            target = self.anchors.get(event.anchor)
            if target is None:
                line = event.start_mark.line + 1
                raise UnreadConfig(
                    "line {line}: the alias *{anchor} has no anchor before it", line=line, anchor=event.anchor
                )
            self.add(target, None)
        elif name == "DocumentStartEvent":
            self.anchors = {}

    def finish(self, node: ConfigNode, event: Any) -> None:
        """Set the end of a collection: its last child's, where the parser only knows the next token."""
        children = [pair.node for pair in node.pairs or ()] or node.items or []
        mark = event.end_mark
        node.end_line, node.end_column = mark.line + 1, mark.column + 1
        if mark.index == event.start_mark.index and children:  # a block collection ends with no token of its own
            node.end_line, node.end_column = max((child.end_line, child.end_column) for child in children)

    def add(self, node: ConfigNode, anchor: str | None) -> None:
        if anchor:
            self.anchors[anchor] = node
        if not self.stack:
            if node.pairs is not None or node.items is not None or node.value is not None:
                self.documents.append(node)
            return
        parent, waiting = self.stack[-1]
        if parent.items is not None:
            parent.items.append(node)
        elif waiting:
            key = waiting.pop()
            if parent.pairs is not None:
                parent.pairs.append(ConfigPair(_name(key), key.line, key.column, node))
        else:
            waiting.append(node)

    def scalar(self, event: Any) -> ConfigNode:
        start, end = event.start_mark, event.end_mark
        text = str(event.value)
        tag = str(event.tag or "")
        value: Scalar = text
        if tag.endswith((":int", ":float", ":bool", ":null")) or (event.style in {None, ""} and not tag):
            value = resolve(text)
        return ConfigNode(start.line + 1, start.column + 1, end.line + 1, end.column + 1, value)


def _name(node: ConfigNode) -> str:
    if node.pairs is not None or node.items is not None:
        return "?"
    if isinstance(node.value, bool):
        return "true" if node.value else "false"
    return "null" if node.value is None else str(node.value)


def resolve(text: str) -> Scalar:
    """A plain scalar as PyYAML reads it, except that `1e-5` is a number too."""
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if len(text) > 400 or text[0] not in "+-.0123456789":
        return text
    if _INTEGER.match(text):
        return int(text.replace("_", ""))
    if _BASED.match(text) and text.strip("+-0_xb"):
        digits = text.replace("_", "")
        return int(digits, 0) if "x" in digits or "b" in digits else int(digits, 8)
    if _FLOAT.match(text):
        return float(text.replace("_", ""))
    special = _SPECIAL.match(text)
    return float(special["sign"] + special["what"]) if special else text


def _sentence(error: Exception) -> str:
    """What the parser said, as one sentence with the 1-based line."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error).split("\n")[0]
    if "nesting depth" in problem:  # newer releases of libyaml have a limit of their own, below ours
        return TOO_DEEP
    if mark is None:
        return say("not valid YAML: {problem}", problem=problem)
    return say(
        "line {line}, column {column}: not valid YAML: {problem}",
        line=mark.line + 1,
        column=mark.column + 1,
        problem=problem,
    )
