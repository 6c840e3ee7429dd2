"""Shows pages of text: width of the terminal, encoding of the stream."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpudoctor.engine.registry import Registry

PIPE_WIDTH = 80
"""Columns of text that does not go to a terminal."""
MAX_WIDTH = 100
"""Columns beyond which prose is harder to read."""


def text_width() -> int:
    """Columns to fill: the terminal's, within reason; 80 for a pipe."""
    from shutil import get_terminal_size

    if not sys.stdout.isatty():
        return PIPE_WIDTH
    return min(get_terminal_size((PIPE_WIDTH, 24)).columns, MAX_WIDTH)


def show(text: str) -> None:
    """Write to standard output in its own encoding. `BrokenPipeError` passes through."""
    from gpudoctor.ui.encoding import write_text

    write_text(text, sys.stdout)


def note_problems(registry: "Registry") -> None:
    """Name the plugins that could not be loaded, on standard error."""
    from gpudoctor.ui.encoding import write_text

    for problem in registry.problems:
        write_text(f"gpudoctor: {problem}\n", sys.stderr)
