"""One colour and one place in the order for each phase of a step, and colours of severities and of curves.

Text, live view, HTML and SVG all read this table, so that a phase looks the same everywhere. The first seven
are those of Okabe and Ito (Color Universal Design, 2008), which readers who see fewer colours tell apart. The
others were chosen by their distance from those in simulated sights.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Colour:
    """The same colour on paper and on a dark screen, as `#rrggbb`."""

    light: str
    dark: str

    @classmethod
    def same(cls, value: str) -> "Colour":
        """One that reads on both."""
        return cls(value, value)


PHASES: Mapping[str, Colour] = MappingProxyType(
    {
        # What computes, lowest in a stack.
        "forward": Colour.same("#56B4E9"),
        "backward": Colour.same("#0072B2"),
        "optimizer": Colour.same("#009E73"),
        # What waits.
        "data_wait": Colour.same("#D55E00"),
        "transfer": Colour.same("#E69F00"),
        "collective": Colour.same("#F0E442"),
        "sync": Colour.same("#CC79A7"),
        # What is done beside the training.
        "evaluation": Colour("#332288", "#7E6BE0"),
        "checkpoint": Colour.same("#88CCAA"),
        "logging": Colour("#882255", "#B0407C"),
        "profiler": Colour.same("#999933"),
        "compile": Colour("#661100", "#96503C"),
        "start": Colour("#6E7681", "#C9CED4"),
        "other": Colour("#B8BEC4", "#4A525C"),
    }
)
"""Phases in the order in which they are stacked and listed in a legend, from below."""

CURVES: tuple[Colour, ...] = (
    Colour("#0072B2", "#56B4E9"), Colour("#D55E00", "#E8772E"), Colour("#009E73", "#22B58C"),
    Colour("#A8508A", "#CC79A7"), Colour("#B07900", "#E69F00"), Colour("#3B8FC4", "#8CCBF0"),
    Colour("#8A8000", "#F0E442"), Colour("#333333", "#D8D8D8"),
)  # fmt: skip
"""Curves that are no phases: GPUs, ranks, the two runs of a comparison. Darker than areas: a line is thin."""

SEVERITIES: Mapping[str, Colour] = MappingProxyType(
    {
        "error": Colour("#B3261E", "#FF8A80"),
        "warning": Colour("#8A5A00", "#E6B450"),
        "note": Colour("#0B6472", "#67D0DD"),
    }
)
"""Severities; the word always stands beside the colour."""


def order(phase: str) -> int:
    """The place of a phase in a stack; unknown ones come last."""
    return list(PHASES).index(phase) if phase in PHASES else len(PHASES)


def phase_colour(phase: str) -> Colour:
    """The colour of a phase; that of `other` for an unknown one."""
    return PHASES.get(phase, PHASES["other"])
