"""DIST003 no-sync-missing."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import Run
from gpudoctor.analysis.source.entry_points import Program, training_programs
from gpudoctor.analysis.source.parallelism import DDP, wrappers
from gpudoctor.analysis.source.syntax_places import line_at
from gpudoctor.lang import say
from gpudoctor.model import Detail, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Event, Known, Loop, Script
from gpudoctor_checks.run_check import RunCheck

_ENGINES = frozenset({"accelerate", "deepspeed", "lightning", "pytorch_lightning"})
_SWITCHES = ("require_backward_grad_sync", "no_sync", "set_requires_gradient_sync", "no_backward_sync")


@frozen
class NoSyncMissingDetail(Detail):
    """What the rule reads."""

    micro_batches: int | None = None
    """Of a step; 0 where not known."""
    text: str | None = None
    """As written."""
    line: int | None = None
    """Of the backward pass."""


class NoSyncMissing(RunCheck):
    """Gradients are accumulated over several backward passes, and DDP reduces them in each one.

    What it finds:
        A training loop under DistributedDataParallel that steps its optimizer once per several backward passes.
        The passes before the last have no `no_sync()` (or `require_backward_grad_sync`).
    Why it hurts:
        Every backward of a DDP model ends in an all-reduce of all gradients. With 8 micro-batches a step, 7 of
        8 reductions are wasted. Over a network they cost as much as the backward pass itself.
    How it knows:
        From the source: gpudoctor finds the micro-batches from `if (i + 1) % N == 0` around the step or from an
        inner loop. It follows N through options. An N of 1 is silent; an N that only a run shows is a note.
        Accelerate, Lightning, DeepSpeed and the Trainer handle this themselves.
    False alarms:
        With fast links and large micro-batches the reduction overlaps with the backward pass.
    Remedies:
        `with model.no_sync():` around all but the last micro-batch of a step.
    References:
        - https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
        - https://arxiv.org/abs/2006.15704
    """

    code = "DIST003"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    thresholds = (
        Threshold("backwards_per_step", 1.5, "1", "convention: gpudoctor's own choice, no published figure is known",
                  "From this many backward passes per optimizer step on, reductions are wasted."),
    )  # fmt: skip

    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:  # noqa: ARG002
        if len(run.states) < 2 or not run.lead.process.of("model"):
            yield from suspected
            return
        backwards = run.per_step("backwards")
        if (
            of_run.wrapped(run.lead.process, "DDP") is None
            or backwards < self.limit("backwards_per_step")
            or not suspected
        ):
            return
        for finding in suspected:
            yield confirmed(
                self,
                [finding],
                finding.message,
                evidence=(run.measured("backwards_per_step", backwards, "{passes}"),),
                severity=Severity.WARNING,  # a note was one for want of the number
                detail=NoSyncMissingDetail(),
            )

    def suspected(self, patient: Patient) -> Iterator[Finding]:
        seen: set[tuple[str, int]] = set()
        for program in training_programs(patient.source):
            wrapped = wrappers(program, DDP)
            handled = any(word in script.text for script in program.scripts for word in _SWITCHES)
            if not wrapped or program.roots & _ENGINES or handled:
                continue
            for script, loop in program.loops:
                if loop.engine or (script.path, loop.span.line) in seen:
                    continue
                for finding in self._from_source(program, script, loop):
                    seen.add((script.path, loop.span.line))
                    yield finding

    def _from_source(self, program: Program, script: Script, loop: Loop) -> Iterator[Finding]:
        if loop.accumulates is None:
            return
        backwards = [event for event in loop.calls(".backward") if not event.evaluation]
        many = len({call.span.line for _, call in wrappers(program, DDP)}) > 1
        if not backwards or many:  # one backward a model is no accumulation
            return
        number = loop.accumulates.value if isinstance(loop.accumulates, Known) else None
        if number is not None and (not isinstance(number, int | float) or number < self.limit("backwards_per_step")):
            return
        place: Event = backwards[0]
        known = isinstance(number, int | float)
        count = f"{number:g}" if known else say("several (`{expression}`)", expression=loop.accumulates.text)
        yield self.finding(
            say(
                "Each optimizer step follows {count} backward passes ({place}). DDP reduces the gradients in each of "
                "them, and all but the last are wasted.",
                count=count,
                place=line_at(place.span),
            ),
            evidence=(place.span, loop.span, wrappers(program, DDP)[0][1].span),
            severity=Severity.WARNING if number is not None else Severity.NOTE,
            subject=f"{script.path}:{loop.span.line}",
            detail=NoSyncMissingDetail(
                micro_batches=int(number) if isinstance(number, int | float) else 0,
                text=loop.accumulates.text,
                line=place.span.line,
            ),
        )
