"""Messages of logs from a TOML file: one block a wording. It is read when a log is, and once.

    [macros]
    CARD = '(?:GPU|NPU) ?\\d{1,2}'

    [[FAIL009]]  # the code; a thread, or the file of the library that prints it
    kind = "cublas"
    match = ['CUBLAS_STATUS_(?P<status>\\w+)', '{CARD} is gone']
    say = "A cuBLAS call failed[ ({status})]."
    as = "symptom probable everywhere"

`match` is a regular expression, or several of which a text must match one. A line break and the blanks behind it do
not count in it. `{NAME}` is a macro, of this file or of `shared_macros.toml`. `as` holds words: a bearing other than
`cause`, a confidence other than `confirmed`, and the fields of `LogMessage` that are true. The other keys are fields
of `LogMessage`, too: `undone`, `explains`, `exits`, `cue`.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from gpudoctor.model.finding import Confidence
from gpudoctor.model.log_message import Bearing, LogMessage

_BEARINGS = {item.value: item for item in Bearing}
_CONFIDENCES = {item.value: item for item in Confidence}
_FLAGS = frozenset({"everywhere", "general", "waits", "lasting", "closing", "last", "unstarted", "outside"})
_MACRO = re.compile(r"\{([A-Z_]+)\}")
_BREAK = re.compile(r"\n\s*")


@cache
def read_messages(package: str, name: str) -> Mapping[str, tuple[LogMessage, ...]]:
    """The messages of a file in a package, by the code before them; raises `ValueError` that says where it is wrong.

    Those under `consequence` and `harmless` are of no check: they have this bearing, and count everywhere.
    """
    table = read_table(package, name)
    macros = dict(_shared_macros())
    for macro, text in table.pop("macros", {}).items():
        macros[macro] = _whole(text, macros)
    found: dict[str, tuple[LogMessage, ...]] = {}
    for code, rows in table.items():
        always = f"{code} everywhere" if code in _BEARINGS else ""
        try:
            found[code] = tuple(_message(row, macros, always) for row in rows)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{package}/{name}: {code}: {type(error).__name__}: {error}") from error
    return found


@cache
def _shared_macros() -> Mapping[str, str]:
    macros: dict[str, str] = {}
    for macro, text in read_table("gpudoctor.analysis.job_log", "shared_macros.toml").items():
        macros[macro] = _whole(text, macros)
    return macros


def read_table(package: str, name: str) -> dict[str, Any]:
    """A TOML file of a package."""
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    table: dict[str, Any] = tomllib.loads(files(package).joinpath(name).read_text("utf-8"))
    return table


def _message(row: Mapping[str, Any], macros: Mapping[str, str], words: str) -> LogMessage:
    fields = dict(row)
    parts = fields.pop("match")
    for word in (*fields.pop("as", "").split(), *words.split()):
        if word in _BEARINGS:
            fields["bearing"] = _BEARINGS[word]
        elif word in _CONFIDENCES:
            fields["confidence"] = _CONFIDENCES[word]
        elif word in _FLAGS:
            fields[word] = True
        else:
            raise ValueError(f"unknown word {word!r} in `as`")
    fields |= {key: _whole(fields[key], macros) for key in ("undone", "explains") if key in fields}
    fields |= {key: tuple(fields[key]) for key in ("cue", "exits") if isinstance(fields.get(key), list)}
    pattern = "|".join(_whole(part, macros) for part in ([parts] if isinstance(parts, str) else parts))
    return LogMessage(pattern=pattern, text=fields.pop("say", ""), **fields)


def _whole(text: str, macros: Mapping[str, str]) -> str:
    """The text with its macros, and without line breaks."""
    return _MACRO.sub(lambda found: macros[found[1]], _BREAK.sub("", text))
