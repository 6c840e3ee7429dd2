"""ENV016 nccl-variable-unknown."""

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from gpudoctor.lang import say
from gpudoctor.model import Check, Facts, Finding, Patient, Reads, Severity
from gpudoctor.model.unavailable import optional
from gpudoctor_checks.config.known_keys import meant
from gpudoctor_checks.environment.variables import all_set

OURS = re.compile(r"(?:NCCL|TORCH_NCCL|TORCH_FR)_[A-Z0-9_]+\Z")

_NUMBER = re.compile(r"\s*[-+]?(?:0x[0-9a-fA-F]+|\d+)\s*\Z")
_READ = re.compile(r"""(?:\b(?:get|getenv|pop)\(|\benviron\[(?=["']\w+["']\](?! ?=[^=])))["'](\w+)["']""")
"""A variable that a script reads: asked for, or a value of `os.environ` that is not set there."""
_LEADING = re.compile(r"\s*([-+]?\d+)")


_PLACES = ("_HOME", "_ROOT", "_LOCATION", "_PREFIX", "_BIN")
"""Names that end so say to a build script where NCCL or its tests are (NCCL_TEST_HOME)."""


class _Known(NamedTuple):
    """What is known of all of them."""

    read: frozenset[str]
    """What the newest NCCL or torch reads."""
    numbers: frozenset[str]
    elsewhere: frozenset[str]
    prefixes: tuple[str, ...]
    """Names that begin so belong to plugins and programs beside NCCL."""
    newest: str


@cache
def _table() -> _Known:
    """The data file, read once."""
    raw = json.loads(files(__package__).joinpath("nccl_variables.json").read_text("utf-8"))

    def named(words: str) -> frozenset[str]:
        return frozenset(f"NCCL_{name}" for name in words.split())

    since, other = named(" ".join(raw["since"].values())), raw["elsewhere"]
    return _Known(
        read=since.union(*(names.split() for names in raw["torch"].values())),
        numbers=since - named(raw["text"]) | named(raw["also_numbers"]),
        elsewhere=named(other["names"]),
        prefixes=tuple(named(other["prefixes"])),
        newest=raw["newest"],
    )


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
        every = list(all_set(patient))
        torch = optional(lambda: patient.torch)
        if torch is not None and torch.hip:
            return
        source = optional(lambda: patient.source)
        own = {name for script in (source.scripts if source is not None else ()) for name in _READ.findall(script.text)}
        for item in every:
            name, value = item.name, item.value
            fault = _fault(name, value or "") if OURS.match(name) and name not in own else None
            if fault is not None:
                kind, text, severity, instead = fault
                shown = name if value is None else f"{name}={value}"
                yield self.finding(
                    say("{shown}: {fault}.", shown=shown, fault=text),
                    evidence=(item.evidence,),
                    confidence=item.sure,
                    severity=severity,
                    subject=item.subject,
                    detail=Facts(kind=kind, variable=name, instead=instead),
                )


def _fault(name: str, value: str) -> tuple[str, str, Severity, str] | None:
    """The kind of a wrong variable, the message after `NAME=value`, and the variable that is meant or replaced it.

    None where nothing is wrong, or nobody can tell.
    """
    known = _table()
    if name in known.read:
        unclear = not value.strip() or any(mark in value for mark in "$`*%{")  # unset, filled in elsewhere, or masked
        if unclear or name not in known.numbers or _NUMBER.match(value):
            return None
        found = _LEADING.match(value)
        misread = say("NCCL reads a number, and takes this for {read}", read=found[1] if found else 0)
        return "value", say("the value makes no sense; {misread}", misread=misread), Severity.WARNING, ""
    if name in known.elsewhere or name.startswith(known.prefixes) or name.endswith(_PLACES):
        return None
    if near := meant(name, known.read):
        text = say("neither NCCL nor torch reads this variable; it looks like {near}", near=near)
        return "slip", text, Severity.WARNING, near
    text = say("NCCL {newest} does not read this variable, nor does torch", newest=known.newest)
    return "unknown", text, Severity.NOTE, ""
