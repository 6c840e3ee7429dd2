"""ENV016 nccl-variable-unknown."""

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from gpudoctor.analysis.source.environment_assignments import assignments
from gpudoctor.lang import say
from gpudoctor.model import Check, Confidence, Evidence, Facts, Finding, Patient, Reads, Severity
from gpudoctor.model.records import frozen
from gpudoctor.model.unavailable import optional
from gpudoctor_checks.config.known_keys import meant
from gpudoctor_checks.environment.variables import environment_and_source

OURS = re.compile(r"(?:NCCL|TORCH_NCCL|TORCH_FR)_[A-Z0-9_]+\Z")

_NUMBER = re.compile(r"\s*[-+]?(?:0x[0-9a-fA-F]+|\d+)\s*\Z")
_READ = re.compile(r"""(?:\b(?:get|getenv|pop)\(|\benviron\[(?=["']\w+["']\](?! ?=[^=])))["'](\w+)["']""")
"""A variable that a script reads: asked for, or a value of `os.environ` that is not set there."""
_LEADING = re.compile(r"\s*([-+]?\d+)")


_PLACES = ("_HOME", "_ROOT", "_LOCATION", "_PREFIX", "_BIN")
"""Names that end so say to a build script where NCCL or its tests are (NCCL_TEST_HOME)."""


@frozen
class VariableTable:
    """What is known of all of them."""

    since: frozenset[str]
    """What the newest NCCL reads."""
    numbers: frozenset[str]
    torch_names: frozenset[str]
    elsewhere: frozenset[str]
    prefixes: tuple[str, ...]
    """Names that begin so belong to plugins and programs beside NCCL."""
    newest: str

    def read(self, name: str) -> bool:
        """Whether the newest NCCL or torch reads it."""
        return name in self.since or name in self.torch_names

    def foreign(self, name: str) -> bool:
        """Whether something other than NCCL and torch is known to read it, or may."""
        return name in self.elsewhere or name.startswith(self.prefixes) or name.endswith(_PLACES)

    def near(self, name: str) -> str:
        """The one variable that a name is a slip of, else ""."""
        return meant(name, [*self.since, *self.torch_names]) or ""

    def misread(self, name: str, value: str) -> str:
        """How a value that makes no sense is read, as the end of a sentence; "" for one that makes sense."""
        if not value.strip() or any(mark in value for mark in "$`*%{"):
            return ""  # unset, filled in elsewhere, or masked
        if name in self.numbers and not _NUMBER.match(value):
            found = _LEADING.match(value)
            return say("NCCL reads a number, and takes this for {read}", read=found[1] if found else 0)
        return ""


@cache
def table() -> VariableTable:
    """The data file, read once."""
    raw = json.loads(files(__package__).joinpath("nccl_variables.json").read_text("utf-8"))
    since = frozenset(f"NCCL_{name}" for names in raw["since"].values() for name in names.split())
    text = {f"NCCL_{name}" for name in raw["text"].split()}
    torch = {kind: frozenset(names.split()) for kind, names in raw["torch"].items()}
    return VariableTable(
        since=since,
        numbers=since - text | {f"NCCL_{name}" for name in raw["also_numbers"].split()},
        torch_names=frozenset().union(*torch.values()),
        elsewhere=frozenset(f"NCCL_{name}" for name in raw["elsewhere"]["names"].split()),
        prefixes=tuple(f"NCCL_{name}" for name in raw["elsewhere"]["prefixes"].split()),
        newest=raw["newest"],
    )


class _Fault(NamedTuple):
    kind: str
    text: str
    """The message after `NAME=value`."""
    severity: Severity
    instead: str = ""


class NcclVariableUnknown(Check):
    """An NCCL variable does not exist, was removed, or has a value that NCCL cannot use.

    What it finds:
        Variables that begin with NCCL_, TORCH_NCCL_ or TORCH_FR_ and that no release of NCCL or torch reads:
        - slips (NCCL_IB_DISABEL)
        - names that people copy or that NCCL dropped (NCCL_TIMEOUT, NCCL_LL_THRESHOLD)

        Also numbers written as words (NCCL_IB_DISABLE=true).
    Why it hurts:
        NCCL ignores such a setting without a word. The job runs with the default, and the person believes that
        a fix was tried. NCCL reads `true` as 0.
    How it knows:
        The variables of this shell or of the process (`--pid`), exports of a job script, and assignments to
        os.environ. A table lists what each release of NCCL and torch reads. It was made from their sources and
        is a data file beside the check.
    False alarms:
        A variable that your own program or an unknown plugin reads. Variables that the script itself reads are
        not judged. Neither are known plugins (NCCL_OFI_, NCCL_TUNER_...), builds (NCCL_HOME) and images
        (NCCL_VERSION). With ROCm nothing is judged: RCCL has other variables.
    Remedies:
        The name that was meant, or the one that replaced it; a value that NCCL reads; else delete the line.
    References:
        - https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
        - https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html
    """

    code = "ENV016"
    reads = frozenset({Reads.ENVIRONMENT, Reads.SOURCE})

    def examine(self, patient: Patient) -> Iterator[Finding]:
        environment, source = environment_and_source(patient)
        torch = optional(lambda: patient.torch)
        if torch is not None and torch.hip:
            return
        placed = assignments(source) if source is not None else ()
        rows: list[tuple[str, str | None, Evidence, Confidence, str]] = [
            (item.name, item.value, item.span, Confidence.SUSPECTED, f"{item.span.path}:{item.span.line} {item.name}")
            for item in placed
        ]
        written = {place.name for place in placed if not place.default}
        if environment is not None:
            rows += [
                (name, value, environment.evidence(name), Confidence.CONFIRMED, name)
                for name, value in sorted(environment.variables.items())
                if name not in written
            ]
        own = {name for script in (source.scripts if source is not None else ()) for name in _READ.findall(script.text)}
        for name, value, where, sure, subject in rows:
            fault = _fault(table(), name, value or "") if OURS.match(name) and name not in own else None
            if fault is not None:
                shown = name if value is None else f"{name}={value}"
                yield self.finding(
                    say("{shown}: {fault}.", shown=shown, fault=fault.text),
                    evidence=(where,),
                    confidence=sure,
                    severity=fault.severity,
                    subject=subject,
                    detail=Facts(kind=fault.kind, variable=name, instead=fault.instead),
                )


def _fault(known: VariableTable, name: str, value: str) -> _Fault | None:
    """What is wrong with a variable; None where nothing is, or nobody can tell."""
    if known.foreign(name) and not known.read(name):
        return None
    if not known.read(name):
        near = known.near(name)
        if near:
            text = say("neither NCCL nor torch reads this variable; it looks like {near}", near=near)
            return _Fault("slip", text, Severity.WARNING, near)
        text = say("NCCL {newest} does not read this variable, nor does torch", newest=known.newest)
        return _Fault("unknown", text, Severity.NOTE)
    misread = known.misread(name, value)
    if misread:
        return _Fault("value", say("the value makes no sense; {misread}", misread=misread), Severity.WARNING)
    return None
