"""PERF005 optimizer-unfused."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.memo import once
from gpudoctor.analysis.observation import suspicions
from gpudoctor.analysis.run.steady_run import judged, ran_on_cpu, spot
from gpudoctor.analysis.source.device_tensors import Target
from gpudoctor.analysis.source.entry_points import training_programs
from gpudoctor.analysis.source.parallelism import plain
from gpudoctor.analysis.source.syntax_places import lines_at
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Detail, Finding, Patient, Reads, Severity, Threshold, Whose
from gpudoctor.model.cuda import numbers
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Call, Script
from gpudoctor.text import percent


@frozen
class OptimizerUnfusedDetail(Detail):
    """What the rule reads."""

    foreach: bool | None = None
    """A call asks for it; else only a run was seen."""
    optimizer: str | None = None
    """Its class."""
    calls: int | None = None
    """Calls that make one."""


class OptimizerUnfused(Check):
    """The optimizer updates one parameter after the other, with several launches for each.

    What it finds:
        An optimizer with `foreach=False` and without `fused=True`.
    Why it hurts:
        Adam needs about ten small kernels for each parameter tensor. A network of 300 tensors needs 3,000
        launches of some microseconds each in every step. The foreach form does them in a few launches for all
        tensors together, the fused form in one pass.
    How it knows:
        From the source. torch.optim's default on CUDA is the foreach form since 2.0: that is not a finding. On
        the CPU one by one is the default; there only a run shows the cost.
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
            suspected = suspected if here else []  # there one by one is the default, unless somebody asks for it
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
        """Calls of one class in one script together."""
        found: dict[object, Finding] = {}
        for program in training_programs(patient.source):
            for script in program.scripts if cpu or program.target in (Target.CUDA, Target.MAYBE) else ():
                kinds: dict[str, list[Call]] = {}
                for call in _one_by_one(script):
                    kinds.setdefault(call.method, []).append(call)
                for optimizer, calls in kinds.items():
                    finding = self.finding(
                        say(
                            "{optimizer} is set to update the parameters one by one (foreach=False, {where}).",
                            optimizer=optimizer,
                            where=lines_at((call.span for call in calls), script.path),
                        ),
                        evidence=(*(call.span for call in calls), next(program.loops)[1].span),
                        subject=f"{script.path}:{min(call.span.line for call in calls)}",
                        detail=OptimizerUnfusedDetail(foreach=True, optimizer=optimizer, calls=len(calls)),
                    )
                    found.setdefault(finding.span, finding)
        yield from found.values()


@once
def _one_by_one(script: Script) -> list[Call]:
    """Calls that ask one of torch's optimizers for it."""
    return [
        call
        for call in script.calls
        if call.name.startswith("torch.optim.")
        and "fused" not in call.keywords
        and plain(call, "foreach") is False
        and not any(guard.never for guard in call.guards)
    ]
