"""A pytest plugin that writes down every finding and remedy that the tests make, so that two versions can be compared.

    pytest -p golden --golden DIR tests/checks         # writes DIR/<test file>.txt
    python tests/helpers/golden.py BEFORE NOW [--again BEFORE2]  # prints what differs; exit code 1 if something does

A rewrite must not change what gpudoctor says. The tests hold some thousand patients, recordings and tapes; this
plugin takes what is said of each of them, not only the part that a test asserts. Findings and remedies are caught
where they are constructed, and what commands print at `gpudoctor.cli.main` and in `command.gpudoctor`, so the
snapshot survives a move of every other module. The detail that a check hands to its rule is left out: it is an
inner matter. `--again` names a second snapshot of the old version: what differs between the two, as measured
times do, is not reported.
"""

import argparse
import dataclasses
import difflib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from enum import Enum
from pathlib import Path
from typing import Any, TextIO

import pytest

ROOT = Path(__file__).resolve().parents[2]
INNER = frozenset({"detail"})
"""Fields of a finding that only its rule reads."""
UNSTEADY = (
    (re.compile(r"\.?/?(?:[\w.+-]+/)*pytest-of-[^/\s]+/pytest-\d+/(?:popen-gw\d+/)?[^/\s'\",)]+"), "TMP"),
    (re.compile(r"(?:[\w./+-]*/)?tmp[a-z0-9_]{8}\b"), "TMP"),
    (re.compile(re.escape(str(ROOT))), "ROOT"),
    (re.compile(r"\b(?:pid|PID|process) \d+"), "process N"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?"), "TIME"),
)
"""What differs from run to run without a change of the code: folders, process ids, the time of day."""


class _Notes:
    """Lines of the test that runs now; and of all tests, by their file."""

    def __init__(self) -> None:
        self.now: dict[str, None] = {}
        self.files: dict[str, dict[str, list[str]]] = {}

    def take(self, item: object) -> None:
        """Write an object down, once a test."""
        self.now.setdefault(_line({type(item).__name__: item}))

    def printed(self, words: Sequence[str], text: str) -> None:
        """Write down what a command printed, a line each."""
        for number, line in enumerate(text.splitlines()):
            self.now.setdefault(_line({"printed": " ".join(map(str, words)), "line": number, "text": line}))

    def close(self, name: str) -> None:
        """End of a test: file what it made under its name."""
        if self.now:
            file, _, rest = name.partition("::")
            self.files.setdefault(file, {}).setdefault(rest, []).extend(sorted(self.now))
        self.now = {}

    def write(self, folder: Path, worker: str) -> None:
        """Write a file for each test file; several workers write files of their own."""
        for file, tests in self.files.items():
            path = folder / (file.replace("/", "_").removesuffix(".py") + worker + ".txt")
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w", encoding="utf-8", errors="backslashreplace") as out:
                for test in sorted(tests):
                    out.write(f"## {test}\n" + "".join(f"{line}\n" for line in tests[test]))


def _line(item: dict[str, Any]) -> str:
    text = json.dumps(_plain(item), ensure_ascii=False)
    for pattern, word in UNSTEADY:
        text = pattern.sub(word, text)
    return text


def _plain(value: Any) -> Any:
    """JSON of a value; empty fields are left out."""
    if isinstance(value, Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {
            name: _plain(item)
            for name, item in fields.items()
            if name not in INNER and item not in (None, "", (), frozenset())
        }
    if isinstance(value, frozenset | set):
        return sorted(map(str, map(_plain, value)))
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return value if isinstance(value, str | int | bool | type(None)) else str(value)


def _watch(kind: type, notes: _Notes) -> None:
    """Have each new object of a class written down."""
    made = kind.__init__

    def __init__(self: object, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        notes.take(self)

    kind.__init__ = __init__  # type: ignore[misc]


class _Tee:
    """A stream that passes on what is written, and keeps it."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.kept = stream, list[str]()

    def write(self, text: str) -> int:
        self.kept.append(text)
        return self.stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def _watch_commands(notes: _Notes) -> None:
    """Have the output of commands written down, of those in this process and of those in a child."""
    import command

    import gpudoctor.cli as cli

    inner: Callable[..., int] = cli.main
    child = command.gpudoctor

    def main(argv: Sequence[str] | None = None) -> int:
        tee = _Tee(sys.stdout)
        try:
            with redirect_stdout(tee):  # type: ignore[type-var]
                return inner(argv)
        finally:
            notes.printed(argv or (), "".join(tee.kept))

    def gpudoctor(*words: str, **kwargs: Any) -> Any:
        done = child(*words, **kwargs)
        notes.printed(words, done.stdout + done.stderr)
        return done

    cli.main = main
    command.gpudoctor = gpudoctor


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--golden`."""
    parser.addoption("--golden", metavar="DIR", help="write every finding and remedy that tests make to DIR")


def pytest_configure(config: pytest.Config) -> None:
    """Watch findings and remedies when `--golden` is given."""
    if config.getoption("--golden"):
        config.pluginmanager.register(_Plugin(Path(config.getoption("--golden")).resolve()))


class _Plugin:
    def __init__(self, folder: Path) -> None:
        from gpudoctor.model import Finding, Remedy

        self.folder = folder
        self.notes = _Notes()
        for kind in (Finding, Remedy):
            _watch(kind, self.notes)
        _watch_commands(self.notes)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Close a test's notes when it ends, whether it passed or not."""
        self.notes.now = {}
        try:
            return (yield)
        finally:
            self.notes.close(item.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Write all."""
        self.notes.write(self.folder, os.environ.get("PYTEST_XDIST_WORKER", ""))


def read(folder: Path) -> dict[str, list[str]]:
    """Lines by test, of all files of a folder; tests of several workers come together."""
    tests: dict[str, list[str]] = {}
    for path in sorted(folder.glob("*.txt")):
        name = ""
        file = re.sub(r"gw\d+$", "", path.stem)
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("## "):
                name = f"{file}::{line[3:]}"
                tests.setdefault(name, [])
            else:
                tests[name].append(line)
    return {name: sorted(lines) for name, lines in tests.items()}


def unlike(one: dict[str, list[str]], other: dict[str, list[str]]) -> set[str]:
    """Names of the tests whose lines differ."""
    return {name for name in one.keys() | other.keys() if one.get(name, []) != other.get(name, [])}


def differences(before: dict[str, list[str]], now: dict[str, list[str]]) -> Iterator[str]:
    """Lines of a diff, test by test; tests that only one side has are named once."""
    for name in sorted(unlike(before, now)):
        yield f"## {name}"
        for line in difflib.unified_diff(before.get(name, []), now.get(name, []), n=0, lineterm=""):
            if not line.startswith(("---", "+++", "@@")):
                yield line


def main() -> int:
    """Compare two folders."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("now", type=Path)
    parser.add_argument("--again", type=Path, help="a second snapshot of the version before")
    given = parser.parse_args()
    before, now = read(given.before), read(given.now)
    unsteady = unlike(before, read(given.again)) if given.again else set[str]()
    found = 0
    for line in differences(*({name: lines for name, lines in side.items() if name not in unsteady}
                              for side in (before, now))):  # fmt: skip
        found += line.startswith("## ")
        print(line)
    if unsteady:
        print(f"{len(unsteady)} tests differ from run to run and were not compared", file=sys.stderr)
    print(f"{found} tests differ", file=sys.stderr)
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
