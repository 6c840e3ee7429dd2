"""A text that a program leaves in a log and what it means for the job; the story of a death in such texts."""

import re
from collections.abc import Iterable, Mapping
from enum import Enum

from gpudoctor.lang import say
from gpudoctor.lang.message import optional_template
from gpudoctor.model.finding import Confidence, Detail, Severity
from gpudoctor.model.records import frozen


class Bearing(Enum):
    """What a message says about the end of a job."""

    CAUSE = "cause"
    """It names what failed."""
    SYMPTOM = "symptom"
    """Something failed whose cause may be elsewhere: on another rank, in another log."""
    CONSEQUENCE = "consequence"
    """It follows from the failure of something else."""
    HINT = "hint"
    """A warning, which is the cause only where a symptom that it explains follows."""
    HARMLESS = "harmless"
    """It frightens and means nothing."""


PLAIN = "exception"
"""The kind of an exception that no wording knows: the one check that lists it answers for all of them."""


@frozen
class LogMessage:
    """One wording. A check lists those of its ailment in `Check.log_messages`."""

    kind: str
    """A word for this wording of the ailment; rules choose their rows by it."""
    pattern: str
    """A regular expression that is searched in the message; named groups fill the braces of `text`."""
    text: str
    """The finding's message. A part in square brackets is left out if one of its groups is missing."""
    cue: str | tuple[str, ...] = ()
    """Small-letter literals, of which a text holds one that matches an alternative without a rare word of its own."""
    bearing: Bearing = Bearing.CAUSE
    confidence: Confidence = Confidence.CONFIRMED
    """CONFIRMED where the text itself states the cause; less where it is inferred."""
    everywhere: bool = False
    """Whether it counts outside of an exception, too: a line of a scheduler, a driver or a C++ library."""
    general: bool = False
    """Whether it also covers what more precise wordings, of this or another check, name: it is tried last."""
    waits: bool = False
    """Whether a rank that prints it waited for another one: the ranks that do not print it are suspect."""
    lasting: bool = False
    """Whether it counts although the training goes on, if it comes again and again up to the end."""
    closing: bool = False
    """Whether it counts only if almost nothing follows it: after a line of the shell, the script may go on."""
    last: bool = False
    """Whether it counts, outside of an exception, only as the last line of its file."""
    undone: str = ""
    """A regular expression for a later line which shows that it was overcome: what a service tries again."""
    unstarted: bool = False
    """Whether the job, or its container, has not begun: it waits, or was refused."""
    outside: bool = False
    """Whether only what runs round the program prints it: it is no line of an exception but its first."""
    explains: str = ""
    """Of a HINT: a regular expression for the failure that it explains."""
    exits: tuple[int, ...] = ()
    """Exit codes of which the command must have given one: a shell goes on after such a line, or ends by it."""
    source: str = ""
    """A thread, or the file of the library that prints it."""


@frozen
class LibraryWarning(LogMessage):
    """A warning of a library that says what ails the training; it is never the cause of a death."""

    severity: Severity
    advice: str
    """What to do: a sentence that begins with a verb."""
    breaks: str | None = None
    """What is wrong with the result, as in `Cost`."""
    alone: bool = False
    """Whether it says no more than the check's own finding: it is left out beside one."""


@frozen(kw_only=False)
class LogDetail(Detail):
    """What a rule reads of a finding that was read in a log."""

    kind: str
    values: tuple[tuple[str, str], ...] = ()

    def placeholders(self) -> Mapping[str, object]:
        """The kind and the named parts."""
        return {"kind": self.kind, **dict(self.values)}


@frozen(kw_only=False)
class LibraryDetail(LogDetail):
    """Of a finding that a library's own warning shows."""

    advice: str = ""


_NAME = re.compile(r"\{(\w+)\}")


def filled(text: str, values: Mapping[str, str]) -> str:
    """The template with its groups; a bracketed part goes if one of its groups is missing or empty."""
    template, options = optional_template(text)
    parts: dict[str, str] = {}
    for number, option in enumerate(options, 1):
        names: Iterable[str] = _NAME.findall(option)
        known = {name: values.get(name, "") for name in names}
        parts[f"option{number}"] = say(option, **known) if all(known.values()) else ""
    for name in _NAME.findall(template):
        parts.setdefault(name, values.get(name) or f"{{{name}}}")
    return say(template, **parts)


# The story of a death as a report carries it: every message that matters, with its role and place.


@frozen
class LogMoment:
    """One message of the time line."""

    role: str
    """`root`, `same` (the same cause on another rank), `cascade`, `handled` (the training went on)."""
    code: str
    """The check's code; "" for a consequence."""
    kind: str
    path: str
    line: int
    last_line: int
    count: int
    rank: int | None
    node: str
    time: str
    """As the log has it; "" without one."""
    step: int | None
    text: str


@frozen
class LogSummary:
    """What was read and what it says."""

    files: tuple[str, ...]
    lines: int
    bytes: int
    ranks: tuple[int, ...]
    """Ranks that printed something under their number."""
    world: int | None
    """Number of ranks, where the log says it."""
    last_step: int | None
    rank: int | None
    """The rank that failed first; None if the log does not show it, or shows several."""
    finished: bool
    """Whether the program said that its training was complete."""
    died: bool
    moments: tuple[LogMoment, ...]
    """In their order; harmless ones are left out."""
