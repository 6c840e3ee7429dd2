"""JSON with places: the standard library judges it, and the reader of YAML, which JSON is, finds the places.

Comments and trailing commas are read, with a note.
"""

import json
import re
from typing import Final

from gpudoctor.lang import say
from gpudoctor.vitals.configs.config_text import TOO_DEEP, UnreadConfig
from gpudoctor.vitals.configs.tree import ConfigNode
from gpudoctor.vitals.configs.yaml_reader import read_yaml

_STRING: Final = r'"(?:[^"\\\n]|\\.)*"'
_COMMENT: Final = re.compile(_STRING + r"|(?P<odd>//[^\n]*|#[^\n]*|/\*.*?\*/)", re.DOTALL)
_TRAILING: Final = re.compile(_STRING + r"|(?P<odd>,)(?=\s*[}\]])")
_PAIR: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
COMMENTS = say("JSON with comments: tools that use Python's json module reject it")
TRAILING = say("JSON with a trailing comma: tools that use Python's json module reject it")


def read_json(text: str) -> tuple[ConfigNode, tuple[str, ...]]:
    """The tree and notes. Raises `UnreadConfig` with the line."""
    notes: list[str] = []
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        for pattern, note in ((_COMMENT, COMMENTS), (_TRAILING, TRAILING)):
            blanked = pattern.sub(_blank, text)
            if blanked != text:
                notes.append(note)
            text = blanked
        _refuse(text)
    # YAML has no pairs of surrogates; what stands there is one character, whichever.
    return (read_yaml(_PAIR.sub("x" * 12, text)) or [ConfigNode(1, 1)])[0], tuple(notes)


def _blank(match: "re.Match[str]") -> str:
    return re.sub(r"[^\n]", " ", match[0]) if match["odd"] else match[0]


def _refuse(text: str) -> None:
    """Raise `UnreadConfig` for what is no JSON."""
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
