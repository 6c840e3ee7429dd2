"""ENV016 nccl-variable-unknown."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.source.environment_assignments import assignments
from gpudoctor.analysis.source.syntax import nodes
from gpudoctor.analysis.workload import optional
from gpudoctor.lang import say
from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Cost,
    Detail,
    Evidence,
    Finding,
    Patient,
    Reads,
    Severity,
    Unavailable,
)
from gpudoctor.model.signs.packages import Packages
from gpudoctor.model.signs.source import Source
from gpudoctor_checks.environment.nccl_variables import OURS, VariableTable, release, table


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclVariableUnknownDetail(Detail):
    """What the rule reads."""

    kind: str
    """`slip`, `unknown`, `gone`, `renamed`, `later` or `value`."""
    variable: str
    instead: str
    """The variable that is meant, or that replaced it; "" where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    kind: str
    text: str
    """The message after `NAME=value`."""
    severity: Severity
    instead: str = ""
    breaks: str = ""


class NcclVariableUnknown(Check):
    """An NCCL variable does not exist, was renamed or removed, or has a value that NCCL cannot use.

    What it finds:
        Variables that begin with NCCL_, TORCH_NCCL_ or TORCH_FR_ and that no release of NCCL or torch reads:
        - slips (NCCL_IB_DISABEL)
        - names that people copy (NCCL_TIMEOUT)
        - names that NCCL dropped (NCCL_LL_THRESHOLD, NCCL_IB_CUDA_SUPPORT)
        - names that the installed NCCL is too old for

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
        source, environment = optional(lambda: patient.source), optional(lambda: patient.environment)
        if environment is None and source is None:
            raise Unavailable(say("neither an environment nor a script was given"))
        torch = optional(lambda: patient.torch)
        if torch is not None and torch.hip:
            return
        installed = _installed(optional(lambda: patient.packages))
        own = _read_by(source) if source is not None else frozenset()
        written: set[str] = set()
        for place in assignments(source) if source is not None else ():
            if not OURS.match(place.name) or place.name in own:
                continue
            written |= {place.name} if not place.default else set()
            fault = _fault(table(), place.name, place.value or "", installed)
            if fault is not None:
                yield self._found(
                    fault, place.name, place.value, place.span, Confidence.SUSPECTED,
                    f"{place.span.path}:{place.span.line} {place.name}",
                )  # fmt: skip
        for name, value in sorted(environment.variables.items()) if environment is not None else ():
            if environment is None or not OURS.match(name) or name in own | written:
                continue
            fault = _fault(table(), name, value, installed)
            if fault is not None:
                yield self._found(fault, name, value, environment.evidence(name), Confidence.CONFIRMED, name)

    def _found(
        self, fault: _Fault, name: str, value: str | None, where: Evidence, sure: Confidence, subject: str
    ) -> Finding:
        shown = name if value is None else f"{name}={value}"
        return self.finding(
            say("{shown}: {fault}.", shown=shown, fault=fault.text),
            evidence=(where,),
            confidence=sure,
            severity=fault.severity,
            cost=Cost(breaks=fault.breaks) if fault.breaks else None,
            subject=subject,
            detail=NcclVariableUnknownDetail(kind=fault.kind, variable=name, instead=fault.instead),
        )


def _fault(known: VariableTable, name: str, value: str, installed: str) -> _Fault | None:
    """What is wrong with a variable; None where nothing is, or nobody can tell."""
    if known.foreign(name) and not known.read(name):
        return None
    if name in known.gone:
        return _gone(known, name, installed)
    if not known.read(name):
        near = known.near(name)
        if near:
            text = say("neither NCCL nor torch reads this variable; it looks like {near}", near=near)
            return _Fault(kind="slip", text=text, severity=Severity.WARNING, instead=near)
        text = say("no release of NCCL up to {newest} reads this variable, nor does torch", newest=known.newest)
        return _Fault(kind="unknown", text=text, severity=Severity.NOTE)
    misread = known.misread(name, value)
    if misread:
        refused = misread.startswith("torch takes")
        return _Fault(
            kind="value",
            text=say("the value makes no sense; {misread}", misread=misread),
            severity=Severity.ERROR if refused else Severity.WARNING,
            breaks=say("torch refuses it when the process group starts") if refused else "",
        )
    if name in known.renamed:
        now, by = known.renamed[name]
        return _Fault(
            kind="renamed", text=say("{by} renamed it to {now}", by=by, now=now), severity=Severity.NOTE, instead=now
        )
    first = known.since.get(name)
    if first is not None and installed and release(installed) < release(first):
        text = say(
            "NCCL reads it since {first}, and {installed} is installed: it has no effect",
            first=first,
            installed=installed,
        )
        return _Fault(kind="later", text=text, severity=Severity.NOTE)
    return None


def _gone(known: VariableTable, name: str, installed: str) -> _Fault | None:
    last, instead = known.gone[name]
    if release(last) >= release(installed or known.oldest):
        return None
    text = say("NCCL reads it no more since the release after {last}: it has no effect", last=last)
    return _Fault(
        kind="gone", text=text + (say("; {instead} took its place", instead=instead) if instead else ""),
        severity=Severity.NOTE, instead=instead,
    )  # fmt: skip


def _installed(packages: Packages | None) -> str:
    """The version of the one NCCL that is installed as a package; "" where none or several are."""
    found = [
        item.version for name, item in (packages.distributions if packages is not None else {}).items()
        if name.startswith("nvidia-nccl-cu")
    ]  # fmt: skip
    return found[0] if len(found) == 1 else ""


def _read_by(source: Source) -> frozenset[str]:
    """The variables that the scripts read themselves: `os.environ["X"]`, `os.getenv("X")` and the like."""
    found: set[str] = set()
    for script in source.scripts:
        if "NCCL_" not in script.text and "TORCH_FR_" not in script.text:
            continue
        for node in nodes(script):
            key: ast.expr | None = None
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
                key = node.slice
            elif isinstance(node, ast.Call) and node.args and _asks(node.func):
                key = node.args[0]
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                found.add(key.value)
    return frozenset(name for name in found if OURS.match(name))


def _asks(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in {"get", "getenv", "pop"}
