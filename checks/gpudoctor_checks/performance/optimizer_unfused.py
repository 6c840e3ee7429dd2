"""PERF005 optimizer-unfused."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis import of_run
from gpudoctor.analysis.memo import once
from gpudoctor.analysis.observation import suspicions
from gpudoctor.analysis.run.steady_run import judged, ran_on_cpu, spot
from gpudoctor.analysis.source.device_tensors import Target
from gpudoctor.analysis.source.entry_points import Program, training_programs
from gpudoctor.analysis.source.parallelism import plain
from gpudoctor.analysis.source.syntax_places import lines_at
from gpudoctor.analysis.source.target_versions import Meant, a_line_admits, meant_version
from gpudoctor.lang import say, template
from gpudoctor.model import Check, Code, Detail, Finding, Patient, Reads, Severity, Threshold, Whose
from gpudoctor.model.cuda import numbers
from gpudoctor.model.signs.source import Call, Script
from gpudoctor.text import percent

_MULTI = frozenset(
    {"Adam", "AdamW", "SGD", "Adagrad", "NAdam", "RAdam", "Adamax", "Adadelta", "RMSprop", "Rprop", "ASGD"}
)
_OLD = re.compile(r"transformers\.(AdamW|optimization\.AdamW)$")
_WORDS = {
    "old": template("transformers' {optimizer} updates the parameters one by one ({where})."),
    "foreach": template("{optimizer} is set to update the parameters one by one (foreach=False, {where})."),
    "version": template("{optimizer} of torch before 2.0 updates the parameters one by one ({where}; {origin})."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerUnfusedDetail(Detail):
    """What the rule reads."""

    kind: str | None = None
    """`foreach`, `version` or `old`; None where only a run was seen."""
    optimizer: str | None = None
    """Its class."""
    calls: int | None = None
    """Calls that make one."""


class OptimizerUnfused(Check):
    """The optimizer updates one parameter after the other, with several launches for each.

    What it finds:
        - `foreach=False` without `fused=True`.
        - In a program on CUDA, other optimizers that loop over the parameters:
        - the old AdamW of transformers
        - optimizers under torch before 2.0, whose default is that loop
    Why it hurts:
        Adam needs about ten small kernels for each parameter tensor. A network of 300 tensors needs 3,000
        launches of some microseconds each in every step. The foreach form does them in a few launches for all
        tensors together, the fused form in one pass.
    How it knows:
        From the source. torch.optim's default on CUDA is the foreach form since 2.0: that is not a finding. It
        is also silent if a project pins an older torch in one file and admits 2.0 in another. On the CPU one by
        one is the default; there only a run shows the cost.
    False alarms:
        - Large tensors hide the launches.
        - Foreach needs memory of the parameters' size for its temporaries, which may be why it was turned off.
    Remedies:
        Set fused=True if torch has it, else use the default (foreach).
    References:
        - https://pytorch.org/docs/stable/optim.html#algorithms
        - https://pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    """

    code = Code("PERF005")
    name = "optimizer-unfused"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    severity = Severity.NOTE
    thresholds = (
        Threshold(
            name="share_noted",
            default=0.05,
            unit="1",
            source="convention: a twentieth of a step is worth a note",
            meaning="An optimizer that takes less of a recorded run is fast enough.",
        ),
        Threshold(
            name="share_warned",
            default=0.15,
            unit="1",
            source="a fused step takes 2 to 5 % of a common one",
            meaning="An optimizer that takes this share is a warning.",
        ),
        Threshold(
            name="torch",
            default=2,
            unit="1",
            source="PyTorch 2.0 release notes: foreach is the default on CUDA",
            meaning="Before it the default updates the parameters one by one.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = judged(patient)
        process = run.lead.process if run is not None else None
        if run is None and ran_on_cpu(patient):
            return
        # Fused optimizers for the CPU came with torch 2.4.
        version = tuple(numbers(str(of_run.torch_fact(process, "version") or ""))[:2]) if process is not None else ()
        here = process is not None and of_run.on_gpu(process) is False and version >= (2, 4)
        suspected = suspicions(lambda: self._suspected(patient, cpu=here), run)
        if run is None or process is None or of_run.on_gpu(process) is None:
            yield from suspected
            return
        share = run.share("optimizer")
        if share < self.limit("share_noted"):
            return
        if not of_run.on_gpu(process):
            # There one by one is the default, and no ailment; but somebody may have asked for it.
            suspected = [
                item for item in suspected if here and item.detail_of(OptimizerUnfusedDetail).kind == "foreach"
            ]
            if not suspected:
                return
        slow = [item for item in process.of("optimizer") if item.get("foreach") is False and not item.get("fused")]
        spans = [spot(patient, place) for item in slow if (place := of_run.place_of(item)) is not None]
        if not slow and not suspected:
            return
        yield of_run.seen_in_run(
            run, share, spans, whose=Whose.DEVICE, worth=run.worth_with(share, "device_optimizer")
        ).finding(
            self,
            say(
                "The optimizer takes {share} of the time and updates the parameters one by one{where}.",
                share=percent(share),
                where=of_run.at(spans),
            ),
            name="optimizer_share",
            severity=Severity.WARNING if share >= self.limit("share_warned") else Severity.NOTE,
            suspected=suspected,
            detail=OptimizerUnfusedDetail(),
        )

    def _suspected(self, patient: Patient, *, cpu: bool) -> Iterator[Finding]:
        found: dict[object, Finding] = {}
        for program in training_programs(patient.source):
            old = _old(patient, program.entry.path, self.limit("torch"))
            if not cpu and program.target not in (Target.CUDA, Target.MAYBE):
                continue
            for finding in self._optimizers(program, old):
                found.setdefault(finding.span, finding)
        yield from found.values()

    def _optimizers(self, program: Program, old: Meant | None) -> Iterator[Finding]:
        """Optimizers of libraries, those of one kind in one script together."""
        for script in program.scripts:
            kinds: dict[tuple[str, str], list[Call]] = {}
            for call in _candidates(script):
                kind = _kind(call, old is not None)
                if kind is not None:
                    kinds.setdefault((kind, call.method), []).append(call)
            for (kind, optimizer), calls in kinds.items():
                where = lines_at((call.span for call in calls), script.path)
                yield self.finding(
                    say(_WORDS[kind], optimizer=optimizer, where=where, origin=old.origin if old else ""),
                    evidence=(*(call.span for call in calls), next(program.loops)[1].span),
                    subject=f"{script.path}:{min(call.span.line for call in calls)}",
                    detail=OptimizerUnfusedDetail(kind=kind, optimizer=optimizer, calls=len(calls)),
                )


def _kind(call: Call, old: bool) -> str | None:
    """Why a library's optimizer goes one by one; None when it does not."""
    if _OLD.match(call.name):
        return "old"
    last = call.name.rpartition(".")[2]
    if call.name != f"torch.optim.{last}" or last not in _MULTI or "fused" in call.keywords:
        return None
    if "foreach" in call.keywords:
        return "foreach" if plain(call, "foreach") is False else None
    return "version" if old and not call.open_ended else None


def _old(patient: Patient, path: str, first: float) -> Meant | None:
    """The torch before a major version that a script is written for; None where a newer one may run it."""
    meant = meant_version(patient, "torch", path)
    version = numbers(meant.version or "")
    if not version or version[0] >= first:
        return None
    # Of two statements of the project, one may admit the newer torch: then which one runs cannot be told.
    return None if meant.asked is not None and a_line_admits(patient, "torch", path, f"{first:g}.0") else meant


@once
def _candidates(script: Script) -> list[Call]:
    """Calls that make an optimizer of a library."""
    return [
        call
        for call in script.calls
        if (call.name.startswith("torch.optim.") or _OLD.match(call.name))
        and not any(guard.never for guard in call.guards)
    ]
