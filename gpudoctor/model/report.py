"""The report: everything a reporter needs, decided already."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from gpudoctor.model.check import Outcome
from gpudoctor.model.finding import Code, Finding
from gpudoctor.model.records import field, frozen
from gpudoctor.model.remedy import Remedy

if TYPE_CHECKING:
    from gpudoctor.model.log_message import LogSummary
    from gpudoctor.model.proof import TrialSummary
    from gpudoctor.model.run import RunSummary, SyntheticSummary
    from gpudoctor.model.signs.job import Launch
    from gpudoctor.model.signs.preflight import Preflight

SCHEMA = "gpudoctor.report/1"

Json: TypeAlias = "None | bool | int | float | str | list[Json] | dict[str, Json]"


@frozen
class SetAside:
    """A remedy that ranking took out, with the reason."""

    remedy: Remedy
    reason: str


@frozen
class Ranked:
    """A finding in its place."""

    rank: int
    """1 is the first to act on."""
    finding: Finding
    remedies: tuple[Remedy, ...]
    """Best first."""
    set_aside: tuple[SetAside, ...]
    """Remedies that conflict with a better placed one or use what is scarce."""
    reason: str
    """Why it stands here, one clause."""


@frozen
class Silenced:
    """A finding that the user silenced; counted, not ranked."""

    finding: Finding
    where: str
    """`comment in train.py:41`, `per-file-ignores`, `baseline`."""
    reason: str | None
    """The user's reason, when one was given."""


@frozen
class Named:
    """A check as reports name it."""

    code: Code
    name: str
    title: str
    """The first line of its manual page."""
    help: str = ""
    """The rest of its manual page in Markdown, for reporters that carry it along (SARIF)."""
    in_runs: bool = False
    """Whether it reads nothing but a recording, so that `check` cannot have its findings."""


@frozen
class Summary:
    """The verdict and the counts."""

    verdict: str
    """One or two sentences: the answer first."""
    unexamined: tuple[str, ...] = ()
    """What a claim of health requires and was not seen, a clause each: nothing found is not health then."""
    judged: tuple[str, ...] = ()
    """Areas that checks judged; a fault in them may be among the findings."""
    not_judged: tuple[str, ...] = ()
    """Areas that no check judged."""
    promise: str = ""
    """The sentence of it that says what the first findings can give back; "" without one."""
    error: int
    warning: int
    note: int
    silenced: int
    passed: int
    skipped: int
    """Skipped for want of a sign (deselected checks are not counted)."""
    crashed: int


@frozen
class Subject:
    """Who was examined."""

    kind: str
    """`machine`, `cluster`, `script`, `command`, `process`, `recording` or `log`."""
    title: str
    targets: tuple[str, ...]
    host: str
    """Node name; stripped by `--share`."""
    gpus: tuple[str, ...]
    """Names of the GPUs, in order; empty without one."""
    details: tuple[tuple[str, str], ...] = ()
    """Label and value of a few facts for the heading: driver, torch, CPUs, memory."""


@frozen
class Excerpt:
    """Lines around a place that the report names."""

    path: str
    line: int
    absolute: str
    """Where the file is on this machine."""
    first: int
    """Number of the first of the lines."""
    lines: tuple[str, ...]


@frozen
class Report:
    """One examination, ready to render."""

    version: str
    subject: Subject
    summary: Summary
    findings: tuple[Ranked, ...]
    silenced: tuple[Silenced, ...]
    outcomes: tuple[Outcome, ...]
    checks: tuple[Named, ...]
    """Code, name and title of every registered check, in code order."""
    problems: tuple[str, ...] = ()
    """What went wrong with the examination itself: an unreadable target, a broken plugin."""
    remarks: tuple[str, ...] = ()
    """What was special about reading and spoils nothing: comments in JSON, a key written twice."""
    launch: "tuple[Launch, ...]" = ()
    """What the job's script will start, a row each launch line."""
    run: "RunSummary | None" = None
    """The recording's numbers; None when nothing was run."""
    log: "LogSummary | None" = None
    """What the job's logs say, message by message; None when no log was named."""
    trial: "TrialSummary | None" = None
    """What trials have shown; None when there were none."""
    synthetic: "SyntheticSummary | None" = None
    """The job that was made for it, its memory and its speed; None for a command of the user's."""
    preflight: "Preflight | None" = None
    """What nodes, cards and links reached under load; None where nothing was measured."""
    scripts: Mapping[str, str] = field(default_factory=dict)
    """Texts of the scripts that a run had, by path; empty where no source of a run was read. For `excerpts`."""
    excerpts: tuple[Excerpt, ...] = ()
    """Lines of the user's files, for formats that show them; not part of the JSON report, and never shared."""
