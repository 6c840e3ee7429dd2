"""What proves a finding: typed values with a unit, an origin and a way to see them by hand."""

from enum import Enum
from typing import TypeAlias

from gpudoctor.model.records import frozen


class Provenance(Enum):
    """Where a number comes from."""

    DECLARED = "declared"
    """Written in a config, a script, a data sheet or a policy."""
    ANALYTIC = "analytic"
    """Computed by a formula."""
    TRACED = "traced"
    """Observed on a simulated run (fake tensors)."""
    MEASURED = "measured"
    """Read from the machine or from a real run."""


@frozen(kw_only=False)
class Measurement:
    """One quantity."""

    name: str
    """Snake-case name of the quantity, e.g. `data_wait_share`."""
    value: float | int | str | bool
    """The value in `unit`: bytes, seconds, watts, degrees Celsius, or a plain word."""
    unit: str
    """`B`, `s`, `W`, `Cel`, `1` for a ratio, `{count}`-like plain nouns for counts; "" for words."""
    provenance: Provenance = Provenance.MEASURED
    reproduce: str | None = None
    """A shell command that shows the value by hand, where there is one."""


@frozen
class SourceSpan:
    """A place in a file: the guilty call or argument."""

    path: str
    """The file, as the user named it (relative to the working folder where it can be)."""
    line: int
    """1-based line of the guilty call or argument."""
    column: int = 1
    end_line: int | None = None
    """1-based last line, when the span has several."""
    text: str = ""


@frozen
class Setting:
    """A declared setting: a key of a config file, an environment variable, a kernel parameter."""

    key: str
    """The key as a person would write it: `training.fp16.enabled`, `NCCL_DEBUG`."""
    value: str
    """Its value as text; a secret never gets here."""
    origin: str
    """Where it was read: a file, "environment", "environment of pid 123"."""
    path: str | None = None
    """The config file, when there is one."""
    line: int | None = None
    """1-based line of the key in that file."""
    reproduce: str | None = None
    """A shell command that shows it by hand."""


@frozen
class LogLine:
    """A line of a log that somebody else wrote: the kernel, a rank, the scheduler."""

    origin: str
    """The log, e.g. `journalctl -k`."""
    text: str
    line: int | None = None
    """1-based line in a log file, when it is one."""
    time: str | None = None
    """ISO 8601 time of the record, where the log has one."""


Evidence: TypeAlias = Measurement | SourceSpan | Setting | LogLine
