"""How wide a report is, and whether it has colours."""

import os
import sys
from contextlib import suppress
from typing import TextIO

PIPE_WIDTH = 80
"""Columns of a text report that does not go to a terminal."""
MAX_WIDTH = 110
"""Columns beyond which text is harder to read, not easier."""


def terminal_width(stream: TextIO | None = None) -> int:
    """Columns of the terminal that a stream goes to (standard output unless given), within reason."""
    from shutil import get_terminal_size

    columns = get_terminal_size((PIPE_WIDTH, 24)).columns
    if stream is not None and stream is not sys.stdout and not os.environ.get("COLUMNS"):
        with suppress(OSError, ValueError):
            columns = os.get_terminal_size(stream.fileno()).columns or PIPE_WIDTH
    return min(columns, MAX_WIDTH)


def wants_colour(choice: str, terminal: bool) -> bool:
    """`--color`, then NO_COLOR (no-color.org) and FORCE_COLOR, then whether it is a terminal."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (terminal and os.environ.get("TERM") != "dumb")
