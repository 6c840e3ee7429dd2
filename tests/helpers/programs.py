"""Small programs for tests of the source reader: written to a folder, read, never run."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from gpudoctor.model.signs.source import Event, Known, Loop, LoopRole, Script, Source, Value
from gpudoctor.vitals.source import read_source


def read_program(text: str, words: Sequence[str] | None = None, files: Mapping[str, str] | None = None) -> Source:
    """The source of `main.py` with a text, beside other files, launched with some words."""
    with TemporaryDirectory() as folder:
        for name, content in (files or {}).items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(content), encoding="utf-8")
        main = Path(folder, "main.py")
        main.write_text(textwrap.dedent(text), encoding="utf-8")
        return read_source([main], {} if words is None else {str(main): words})


def read_main(text: str, words: Sequence[str] | None = None, files: Mapping[str, str] | None = None) -> Script:
    """The script `main.py` of such a program."""
    source = read_program(text, words, files)
    assert not source.unread, source.unread
    return source.scripts[0]


def argument(script: Script, name: str = "probe", position: int = 0) -> Value | None:
    """An argument of the only call of a function."""
    [call] = [c for c in script.calls if c.method == name]
    return call.argument("value", position)


def plain(value: Value | None) -> object:
    """A known value, or "?" for an unknown one."""
    return value.value if isinstance(value, Known) else "?"


def call_names(script: Script) -> list[str]:
    """Resolved names of all calls."""
    return [call.name for call in script.calls]


def loops(script: Script, role: LoopRole) -> list[Loop]:
    """Loops of a role."""
    return [loop for loop in script.loops if loop.role is role]


def training(script: Script) -> Loop:
    """The only training loop."""
    found = loops(script, LoopRole.TRAINING)
    assert len(found) == 1, [(loop.role, loop.span.line, loop.iterates) for loop in script.loops]
    return found[0]


def event(loop: Loop, name: str) -> Event:
    """The only event of a loop that calls a name."""
    found = list(loop.calls(name))
    assert len(found) == 1, [e.call.name for e in loop.events if e.call is not None]
    return found[0]
