"""JSON with places: the standard library reads it, a scan of the (then valid) text finds the places."""

import json
import re
from bisect import bisect_right
from typing import Final

from gpudoctor.lang import say
from gpudoctor.vitals.configs.config_text import TOO_DEEP, UnreadConfig
from gpudoctor.vitals.configs.tree import ConfigNode, ConfigPair

_STRING: Final = r'"(?:[^"\\\n]|\\.)*"'
_RELAXED: Final = re.compile(_STRING + r"|(?P<odd>//[^\n]*|#[^\n]*|/\*.*?\*/|,(?=\s*[}\]]))", re.DOTALL)
_TOKEN: Final = re.compile(_STRING + r'|[{}\[\]]|[^\s{}\[\]:,"]+')


def plain_json(text: str) -> str:
    """The text with blanks for comments and trailing commas, which DeepSpeed reads; places stay where they are."""
    for _ in range(2):  # the comma before a comment is a trailing one once the comment is blank
        text = _RELAXED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]) if match["odd"] else match[0], text)
    return text


def read_json(text: str) -> ConfigNode:
    """The tree. Raises `UnreadConfig` with the line."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        problem = error.msg if text.strip() else say("the file is empty")
        where = {"line": error.lineno, "column": error.colno}
        raise UnreadConfig(
            "line {line}, column {column}: not valid JSON: {problem}", **where, problem=problem
        ) from error
    except RecursionError as error:
        raise UnreadConfig(TOO_DEEP) from error
    except ValueError as error:  # a number of thousands of digits
        raise UnreadConfig("cannot be read: {error}", error=error) from error
    return _tree(text)


def _tree(text: str) -> ConfigNode:
    starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def place(position: int) -> tuple[int, int]:
        line = bisect_right(starts, position)
        return line, position - starts[line - 1] + 1

    root = ConfigNode(1, 1)
    stack = [root]
    root.items = []
    key: ConfigPair | None = None
    for match in _TOKEN.finditer(text):
        token, begin, end = match[0], place(match.start()), place(match.end())
        if token in "}]":
            closed = stack.pop()
            closed.end_line, closed.end_column = end
            continue
        if stack[-1].pairs is not None and key is None:
            key = ConfigPair(json.loads(token), *begin, ConfigNode(*begin))
            continue
        node = ConfigNode(*begin, *end)
        parent = stack[-1]
        if key is not None and parent.pairs is not None:
            key.node = node
            parent.pairs.append(key)
            key = None
        elif parent.items is not None:
            parent.items.append(node)
        if token in "{[":
            node.pairs, node.items = ([], None) if token == "{" else (None, [])
            stack.append(node)
        else:
            node.value = json.loads(token)
    return root.items[0]  # it was read before, so there is one
