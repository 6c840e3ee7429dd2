"""ENV016 nccl-variable-unknown."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from gpudoctor.analysis.source.environment_assignments import assignments
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Confidence, Cost, Detail, Evidence, Finding, Patient, Reads, Severity
from gpudoctor.model.records import frozen
from gpudoctor.model.unavailable import optional
from gpudoctor_checks.config.known_keys import meant
from gpudoctor_checks.environment.variables import environment_and_source

OURS = re.compile(r"(?:NCCL|TORCH_NCCL|TORCH_FR)_[A-Z0-9_]+\Z")

_NUMBER = re.compile(r"\s*[-+]?(?:0x[0-9a-fA-F]+|\d+)\s*\Z")
_READ = re.compile(r"""(?:\b(?:get|getenv|pop)\(|\benviron\[(?=["']\w+["']\](?! ?=[^=])))["'](\w+)["']""")
"""A variable that a script reads: asked for, or a value of `os.environ` that is not set there."""
_LEADING = re.compile(r"\s*([-+]?\d+)")
_FLAGS = frozenset({"y", "yes", "1", "t", "true", "n", "no", "0", "f", "false"})


_PLACES = ("_HOME", "_ROOT", "_LOCATION", "_PREFIX", "_BIN")
"""Names that end so say to a build script where NCCL or its tests are (NCCL_TEST_HOME)."""


@frozen
class VariableTable:
    """What is known of all of them."""

    since: frozenset[str]
    """What the newest NCCL reads."""
    numbers: frozenset[str]
    torch_flags: frozenset[str]
    torch_numbers: frozenset[str]
    torch_names: frozenset[str]
    values: Mapping[str, Mapping[str, Any]]
    """The values that one can have: `range`, or `words` with what is said of them (`_refused`)."""
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
        """The one variable that a name is a slip of, or its words in another order; else ""."""
        known = [*self.since, *self.torch_names]
        words = sorted(name.split("_"))
        close = {item for item in known if sorted(item.split("_")) == words}
        return close.pop() if len(close) == 1 else meant(name, known) or ""

    def misread(self, name: str, value: str) -> str:
        """How a value that makes no sense is read, as the end of a sentence; "" for one that makes sense."""
        if not value.strip() or any(mark in value for mark in "$`*%{"):
            return ""  # unset, filled in elsewhere, or masked
        if name in self.torch_flags:
            return "" if value.lower() in _FLAGS else say("torch takes 1, 0, true, false, yes and no")
        if name in self.torch_numbers and _LEADING.match(value) is None:
            return say("torch takes a number")
        if name in self.numbers and not _NUMBER.match(value):
            return say("NCCL reads a number, and takes this for {read}", read=_read(value) or 0)
        refused = _refused(self.values[name], value) if name in self.values else ""
        return say("it can be {refused}", refused=refused) if refused else ""


def _refused(row: Mapping[str, Any], value: str) -> str:
    """What the library knows instead of a value; "" for one that it takes.

    `case`: it compares words with their case. `digits`: it takes a number in place of a word. `list`: it takes a
    list of words, `^ring` and `allreduce:tree,ring;broadcast:ring` included.
    """
    if "range" in row:
        (lowest, highest), number = row["range"], _read(value)
        inside = number is None or lowest <= number <= highest
        return "" if inside else say("{lowest} to {highest}", lowest=lowest, highest=highest)
    text, known = value.strip(), row["words"].split()
    if row.get("digits") and text[:1].isdigit():
        return ""
    parts = [text]
    if row.get("list"):
        lists = [item.rpartition(":")[2].strip().removeprefix("^") for item in text.split(";")]
        parts = [word.strip() for item in lists for word in item.split(",") if word.strip()]
    wanted = known if row.get("case") else [word.lower() for word in known]
    return "" if all((part if row.get("case") else part.lower()) in wanted for part in parts) else ", ".join(known)


def _read(value: str) -> int | None:
    found = _LEADING.match(value)
    return int(found.group(1)) if found else None


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
        torch_flags=torch["flags"],
        torch_numbers=torch["numbers"],
        torch_names=frozenset().union(*torch.values()),
        values=raw["values"],
        elsewhere=frozenset(f"NCCL_{name}" for name in raw["elsewhere"]["names"].split()),
        prefixes=tuple(f"NCCL_{name}" for name in raw["elsewhere"]["prefixes"].split()),
        newest=raw["newest"],
    )


@frozen
class NcclVariableUnknownDetail(Detail):
    """What the rule reads."""

    kind: str
    """`slip`, `unknown` or `value`."""
    variable: str
    instead: str
    """The variable that is meant, or that replaced it; "" where there is none."""


class _Fault(NamedTuple):
    kind: str
    text: str
    """The message after `NAME=value`."""
    severity: Severity
    instead: str = ""
    breaks: str = ""


class NcclVariableUnknown(Check):
    """An NCCL variable does not exist, was removed, or has a value that NCCL cannot use.

    What it finds:
        Variables that begin with NCCL_, TORCH_NCCL_ or TORCH_FR_ and that no release of NCCL or torch reads:
        - slips (NCCL_IB_DISABEL)
        - names that people copy or that NCCL dropped (NCCL_TIMEOUT, NCCL_LL_THRESHOLD)

        Also numbers written as words (NCCL_IB_DISABLE=true), unknown words (NCCL_PROTO=LL256), numbers out of
        range.
    Why it hurts:
        NCCL ignores such a setting without a word. The job runs with the default, and the person believes that
        a fix was tried. NCCL reads `true` as 0. torch refuses a flag that it cannot read, and the job does not
        start.
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
        - https://github.com/NVIDIA/nccl (NCCL_PARAM in src/)
    """

    code = Code("ENV016")
    name = "nccl-variable-unknown"
    reads = frozenset({Reads.ENVIRONMENT, Reads.SOURCE})
    severity = Severity.WARNING

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
                    cost=Cost(breaks=fault.breaks) if fault.breaks else None,
                    subject=subject,
                    detail=NcclVariableUnknownDetail(kind=fault.kind, variable=name, instead=fault.instead),
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
        text, breaks = say("the value makes no sense; {misread}", misread=misread), ""
        if misread.startswith("torch takes"):
            breaks = say("torch refuses it when the process group starts")
        return _Fault("value", text, Severity.ERROR if breaks else Severity.WARNING, breaks=breaks)
    return None
