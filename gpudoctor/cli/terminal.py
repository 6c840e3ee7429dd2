"""How wide a report is, and whether it has colours."""

import os

PIPE_WIDTH = 80
"""Columns of a text report that does not go to a terminal."""
MAX_WIDTH = 110
"""Columns beyond which text is harder to read, not easier."""


def terminal_width() -> int:
    """Columns of the terminal, within reason."""
    from shutil import get_terminal_size

    return min(get_terminal_size((PIPE_WIDTH, 24)).columns, MAX_WIDTH)


def wants_colour(choice: str, terminal: bool) -> bool:
    """`--color`, then NO_COLOR (no-color.org) and FORCE_COLOR, then whether it is a terminal."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (terminal and os.environ.get("TERM") != "dumb")
