"""Colours and the pager: when they are used, and what turns them off."""

import io
import shlex
import sys

import pytest

from gpudoctor.cli import output
from gpudoctor.cli.output import page, wants_colour


@pytest.mark.parametrize(
    ("choice", "terminal", "variables", "wanted"),
    [
        ("auto", True, {}, True),
        ("auto", False, {}, False),
        ("auto", True, {"NO_COLOR": "1"}, False),
        ("auto", False, {"FORCE_COLOR": "1"}, True),
        ("auto", True, {"FORCE_COLOR": "0"}, False),
        ("auto", True, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ("auto", True, {"TERM": "dumb"}, False),
        ("always", False, {"NO_COLOR": "1"}, True),
        ("never", True, {"FORCE_COLOR": "1"}, False),
    ],
)
def test_when_there_are_colours(choice, terminal, variables, wanted, monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert wants_colour(choice, terminal) is wanted


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch, tmp_path):
    """A terminal of 24 lines, and a pager that keeps what it gets in a file."""
    kept = tmp_path / "paged.txt"
    pager = tmp_path / "a pager"
    pager.write_text(f"import sys\nopen({str(kept)!r}, 'w').write(sys.stdin.read())\n")
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("PAGER", shlex.join([sys.executable, str(pager)]))

    def paged(text: str, shown: io.StringIO) -> tuple[str, bool]:
        """What is on the terminal, and whether the pager got it. (pytest sets its own streams before each test.)"""
        with monkeypatch.context() as now:
            now.setattr(output.sys, "stdout", shown)
            now.setattr(output.sys, "stdin", Terminal())
            page(text)
        return shown.getvalue(), kept.exists() and kept.read_text() == text

    return paged


def test_a_long_page_goes_to_the_pager_and_a_short_one_does_not(terminal):
    assert terminal("short\n" * 10, Terminal()) == ("short\n" * 10, False)
    assert terminal("long\n" * 30, Terminal()) == ("", True)


@pytest.mark.parametrize("chosen", ["", "cat", "no-such-pager", "'"])
def test_a_pager_that_is_off_or_not_there_loses_nothing(terminal, monkeypatch, chosen):
    monkeypatch.setenv("PAGER", chosen)
    assert terminal("long\n" * 30, Terminal()) == ("long\n" * 30, False)
