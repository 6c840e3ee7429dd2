"""A remedy: what to do about a finding, what it is worth and whether a machine may do it."""

from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from gpudoctor.model.finding import Resource
from gpudoctor.model.records import field, frozen

if TYPE_CHECKING:
    from gpudoctor.model.proof import Proof


class Applicability(Enum):
    """May it be applied without asking? Ruff's words."""

    SAFE = "safe"
    """Same numerics."""
    UNSAFE = "unsafe"
    """May change results."""
    DISPLAY_ONLY = "display-only"
    """A person must act."""


class Effort(Enum):
    """What it takes, least first; ranking uses the order."""

    ONE_LINE = "one line"
    SETTING = "one setting"
    COMMAND = "one command"
    SMALL_EDIT = "a small edit"
    REWRITE = "a rewrite"
    ADMINISTRATOR = "an administrator"

    @property
    def rank(self) -> int:
        """0 is the least effort."""
        return list(Effort).index(self)


class EffectOrigin(Enum):
    """Where an expected effect comes from."""

    BOUND = "bound"
    """An Amdahl bound on a measured share."""
    ESTIMATE = "estimate"
    """A formula with this machine's numbers."""
    PUBLISHED = "published"
    """Somebody's measurement, named in the remedy's references."""
    MEASURED = "measured"
    """A trial here."""


@frozen
class Effect:
    """An expected effect: a range, never a point."""

    quantity: str
    """`throughput`, `memory`, `step_time`, `start_time`, `disk`."""
    low: float
    high: float
    unit: str
    """`x` for a factor, `B` for bytes, `s` for seconds."""
    provenance: EffectOrigin


@frozen
class KeywordEdit:
    """Set keyword arguments of the call that stands at a place in a Python file."""

    path: str
    line: int
    column: int
    set: tuple[tuple[str, str], ...] = ()
    """Keyword and the Python expression to give it."""
    remove: tuple[str, ...] = ()
    method: str = ""
    """Last name of the called function, which tells the calls of a chain apart: `f` and `g` of `f(x).g(y)`."""


@frozen
class TextEdit:
    """Replace a span of text in a file; lines and columns are 1-based, the end is exclusive."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    new_text: str
    expected: str
    """What stands there now; an editor that finds something else must refuse."""


@frozen
class ImportEdit:
    """Make sure that a Python file imports a module, after its docstring and its other imports."""

    path: str
    statement: str
    """`import torch` or `from torch import nn`, one name."""


Edit: TypeAlias = KeywordEdit | TextEdit | ImportEdit


@frozen
class Remedy:
    """One thing to do about one finding."""

    id: str
    """`CODE-word`, unique among the remedies of a code, e.g. `DATA001-workers`."""
    title: str
    """What to do, with the number to set: `num_workers=6, persistent_workers=True`."""
    steps: tuple[str, ...]
    """How: sentences or commands to copy. Never empty."""
    applicability: Applicability
    effort: Effort
    effect: Effect | None = None
    """What it is expected to give; None where nobody knows, never a guess."""
    bounded: bool = True
    """Whether it gives back the share of time that its finding measured, at most; False where what it takes
    in exchange is not known."""
    sets: tuple[tuple[str, str], ...] = ()
    """Knobs that it turns and their new values, so that two remedies that disagree are seen."""
    uses: frozenset[Resource] = frozenset()
    edits: tuple[Edit, ...] = ()
    """The edit that does it, where there is one."""
    patch: str | None = None
    """The edits as a unified diff, once somebody has asked for it."""
    override: tuple[tuple[str, str], ...] = ()
    """Runtime overrides for a trial: the probe's names and values."""
    references: tuple[str, ...] = field(default_factory=tuple)
    proof: "Proof | None" = None
    """What a trial of it has shown; None where there was none."""
