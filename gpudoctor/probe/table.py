"""The table of steps: rows collected in memory, merged the longer a run lasts, taken out in blocks."""

from __future__ import annotations

from .wire.steps import COLUMNS, DEVICE, MEMORY, NUMBERS

NAN = float("nan")

AT = {name: position for position, (name, _) in enumerate(COLUMNS)}
"""Position of a column in a row."""
WIDTH = len(COLUMNS)
OTHER = WIDTH
"""One more place at the end of a row in the making: time that no phase owns; it is not written."""

_STATES = MEMORY + NUMBERS
_UNKNOWN = {*DEVICE, "samples", "tokens", "padding", *_STATES}
EMPTY: tuple[float, ...] = (*(NAN if name in _UNKNOWN else 0.0 for name, _ in COLUMNS), 0.0)
"""A row before its step."""

FULL_ROWS = 16384
"""Rows of one step each; after them a row covers 2 steps for 8,192 rows, then 4, and so on."""
MERGED_ROWS = 8192

_T = AT["t"]


def steps_in_row(row: int) -> int:
    """How many steps the row with this number covers."""
    return 1 if row < FULL_ROWS else 2 << (row - FULL_ROWS) // MERGED_ROWS


class StepTable:
    """Rows that wait to be written; the training thread adds, the writing thread takes."""

    def __init__(self) -> None:
        self.rows = 0
        self.room = 1
        """Steps that the next row may cover."""
        self._values: list[float] = []

    def push(self, row: list[float]) -> None:
        """Steps have ended, as many as there was room for, or the last ones; `row` has `WIDTH` values."""
        self._values += row
        self.rows += 1
        if self.rows >= FULL_ROWS:
            self.room = steps_in_row(self.rows)

    def patch(self, step: int, column: int, value: float) -> bool:
        """Set a value of a step that is over; whether its row was still here."""
        values = self._values
        if self.room > 1 or not values:
            return False
        at = (step - int(values[0])) * WIDTH
        if not 0 <= at < len(values) or values[at] != step:
            return False
        values[at + column] = value
        return True

    def take(self, everything: bool = False, until: float = float("inf")) -> list[list[float]]:
        """The columns of the rows that are complete (or of all), and forget them; [] where there are none.

        Rows that ended after `until` stay: numbers of theirs are on their way.
        """
        values = self._values
        size = len(values) // WIDTH * WIDTH
        while size and not everything and values[size - WIDTH + _T] > until:
            size -= WIDTH
        if not size:
            return []
        taken = values[:size]  # the training thread only ever appends, and each of these is one C call
        del values[:size]
        return [taken[column::WIDTH] for column in range(WIDTH)]
