"""OBS004: the training stops for an evaluation every few steps."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile

from gpudoctor.analysis.live.stack_shares import recurring_live, watched
from gpudoctor.analysis.observation import Observation, suspicions
from gpudoctor.analysis.run.cost_attribution import at, price, recurring_in_run, seen_in_run
from gpudoctor.analysis.run.line_ownership import LineOwner
from gpudoctor.analysis.run.recorded_statements import callers
from gpudoctor.analysis.run.rollouts import experience
from gpudoctor.analysis.run.steady_run import hot_lines, judged, judged_by_share, run_of
from gpudoctor.analysis.run.ungraded_passes import ungraded_passes
from gpudoctor.analysis.source.autograd_flow import GraphFlow, feeds_backward
from gpudoctor.analysis.source.call_frequency import full_batch, often, option_of
from gpudoctor.analysis.source.control_flow import bound, enclosing, loop_node
from gpudoctor.lang import say
from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Detail,
    Finding,
    Measurement,
    Patient,
    Provenance,
    Reads,
    Severity,
    SourceSpan,
    Threshold,
    Trait,
    Whose,
)
from gpudoctor.model.signs.source import Event, GuardKind, Known, Loop, LoopRole, Script, Source

_NAMES = re.compile(r"_?(?:run_|do_)?(?:evaluate|evaluation|validate|validation)(?:_model|_epoch|_loop|_step)?$")
_METHODS = frozenset({"transformers.Trainer.evaluate", "lightning.Trainer.validate"})
_SETS = re.compile(
    r"(?:^|_|\.)(?:val|valid|validation|eval|test|dev)_?(?:loader|dataloader|dl|set|dataset|data|iter)\b"
)


@dataclass(frozen=True, slots=True)
class _Evaluation:
    event: Event
    span: SourceSpan
    """The call in the training loop that leads to it, or the evaluation loop's head."""
    period: float
    loop: Loop | None
    """The evaluation loop, where the program has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationTooOftenDetail(Detail):
    """What the rule reads."""

    period: float | None = None
    """Steps between two of them."""
    norm: float | None = None
    """Steps: a shorter period would be found again."""
    engine_loop: str | None = None
    """The framework whose own loop it is."""
    option: str | None = None
    """The option of the command line that the period comes from."""
    event_line: int | None = None
    """Of the call in the loop."""
    event_column: int | None = None
    event_path: str | None = None


_OF_DATA = re.compile(r"len\(|\.size|\.shape|batch|loader|data|test|val|episode|step|iter", re.IGNORECASE)
"""In a `range`, what makes it a pass over a data set."""
_OF_A_SET = re.compile(r"len\(|\.size|\.shape|batch|loader|data|test|val", re.IGNORECASE)
"""The same in a function whose name does not speak of an evaluation: a sampler goes by steps too."""
_EVALUATES = re.compile(r"eval|valid|test|(^|_)val(_|$)|episode|rollout", re.IGNORECASE)


class EvaluationTooOften(Check):
    """The training stops for a whole evaluation every few steps.

    What it finds:
        A loop that evaluates the model over another loader inside the training loop, or in a function that it
        calls. It runs on every pass or more often than every 50 passes.
    Why it hurts:
        An evaluation over 100 batches costs as much as 30 to 50 training steps. A forward pass is about a third
        of a step. Every 10 steps, the job spends three quarters of its time on it.
    How it knows:
        From the source: which loop evaluates (a forward without backward, over a loader). It also reads where
        the training loop reaches it, and under which conditions. More often than every 10 steps is a warning,
        than every 50 a note. The cost depends on the size of the set, which only a run shows. From a recording:
        the time in evaluations. If the model stays in training mode, it is the time of passes under
        `torch.no_grad()` that no training step needs.
    False alarms:
        A validation set of one or two batches. An evaluation once an epoch, or in a loop whose pass is an
        epoch, is not reported. Neither is one behind a switch that is off, or at most 20 in a run of known
        length. A policy that acts in an environment is not an evaluation: reinforcement learning makes its data
        that way. Neither is a network's own loop, or a sampler that goes by steps.
    Remedies:
        Evaluate every 500 steps or once an epoch, over a part of the set in between.
    References:
        - https://huggingface.co/docs/transformers/main_classes/trainer#transformers.TrainingArguments.eval_steps
        - https://lightning.ai/docs/pytorch/stable/common/trainer.html#val-check-interval
    """

    code = Code("OBS004")
    name = "evaluation-too-often"
    traits = frozenset({Trait.IN_EVALUATION})
    reads = frozenset({Reads.SOURCE, Reads.RECORDING, Reads.PROCESS})
    severity = Severity.WARNING
    thresholds = (
        Threshold(
            name="eval_period",
            default=50,
            unit="{steps}",
            source="a tenth of transformers' default of 500 steps",
            meaning="Evaluating more often than once in this many steps is a finding.",
        ),
        Threshold(
            name="eval_period_costly",
            default=10,
            unit="{steps}",
            source="30 forward passes every 10 steps double the time of a run",
            meaning="Evaluating more often than once in this many steps is a warning.",
        ),
        Threshold(
            name="occasions",
            default=20,
            unit="{times}",
            source="transformers' default of 500 steps comes 20 times in a run of 10,000 steps",
            meaning="What is evaluated at most this often in the whole run is not a finding.",
        ),
        Threshold(
            name="few_batches",
            default=4,
            unit="{batches}",
            source="four forward passes cost about as much as one training step",
            meaning="An evaluation known to end within this many batches costs little.",
        ),
        *Threshold.note_and_warning("Evaluation that takes this share of a recorded run is", noted=0.15, warned=0.30),
        Threshold(
            name="events",
            default=3,
            unit="{times}",
            source="convention: once or twice is not a period, and a short run ends with an evaluation",
            meaning="Fewer steps with an evaluation do not show its cost.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        seen = self._seen(patient)
        if seen is None:
            yield from self._from_source(patient.source)
            return
        severity = seen.level(self)
        passes = seen.recurrence
        if severity is None:
            yield from self._in_training_mode(patient)
        if severity is None or passes is None or passes.times < self.limit("events") or _acts(patient, seen):
            return
        yield seen.finding(
            self,
            say("Evaluation takes {cost}{often}{where}.", cost=seen.words, often=passes.words, where=seen.where),
            name="evaluation_share",
            severity=severity,
            suspected=suspicions(lambda: self._from_source(patient.source), seen),
            detail=EvaluationTooOftenDetail(period=passes.steps, engine_loop=seen.engine),
            numbers=(passes.measurement,),
        )

    def _in_training_mode(self, patient: Patient) -> Iterator[Finding]:
        """Passes without gradients that the recorder took for the training's own, as the mode does not tell."""
        run = judged(patient)
        found = ungraded_passes(patient, run) if run is not None else None
        if run is None or found is None or experience(patient, run) is not None:
            return
        seen = seen_in_run(run, found.share, found.spans, whose=Whose.DEVICE)
        severity = seen.level(self)
        if severity is not None:
            yield seen.finding(
                self,
                say(
                    "Forward passes without gradients that no training step needs take {cost}{of_a_step}{where}.",
                    cost=seen.words,
                    of_a_step=seen.of_a_step,
                    where=seen.where,
                ),
                name="evaluation_share",
                severity=severity,
                detail=EvaluationTooOftenDetail(engine_loop=seen.engine),
            )

    def _seen(self, patient: Patient) -> Observation | None:
        if (window := watched(patient)) is not None:
            return recurring_live(window, "evaluation", whose=Whose.DEVICE)
        run = judged_by_share(patient, self.limit("share_warned"), "evaluation")
        if run is None:
            return None
        seen = price(patient, run, phases=("evaluation",), owners=(LineOwner.EVALUATION,), whose=Whose.DEVICE)
        spans = [*seen.spans, *hot_lines(patient, run, "evaluation")][:4]
        spans = list(dict.fromkeys((*spans, *callers(patient, spans[:2]))))
        return recurring_in_run(run, replace(seen, spans=tuple(spans), where=at(spans)), "evaluation")

    def _from_source(self, source: Source) -> Iterator[Finding]:
        said: set[tuple[str, int]] = set()
        for script, loop in source.training_loops:
            if full_batch(loop) or loop.engine:
                continue  # a pass is an epoch; an engine evaluates by its own settings
            for found in _evaluations(loop):
                place = (found.span.path, found.span.line)
                if place not in said and self._too_often(source, script, loop, found):
                    said.add(place)
                    yield self._found(loop, found)

    def _too_often(self, source: Source, script: Script, loop: Loop, found: _Evaluation) -> bool:
        if found.period >= self.limit("eval_period"):
            return False
        steps = bound(script, loop)
        if steps is not None and steps / found.period <= self.limit("occasions"):
            return False
        own = found.loop
        if own is not None and (_feeds_the_step(source, loop, own) or _needed_by_the_loss(script, loop, own)):
            return False
        home = next((item for item in source.scripts if own and item.path == own.span.path), None)
        batches = bound(home, own) if home is not None and own is not None else None
        return batches is None or batches > self.limit("few_batches")

    def _found(self, loop: Loop, found: _Evaluation) -> Finding:
        costly = found.period < self.limit("eval_period_costly")
        where = (
            say(" (the loop over {iterable} at line {line})", iterable=found.loop.iterates, line=found.loop.span.line)
            if found.loop
            else ""
        )
        evidence: list[SourceSpan] = [found.span, *([found.loop.span] if found.loop else [])]
        return self.finding(
            say(
                "The model is evaluated {often}{where}; the norm is a period of {limit:.0f} steps or more.",
                often=often(found.period),
                where=where,
                limit=self.limit("eval_period"),
            ),
            evidence=(
                *dict.fromkeys(evidence),
                Measurement(
                    name="steps_between_evaluations",
                    value=found.period,
                    unit="{steps}",
                    provenance=Provenance.DECLARED,
                    reproduce=f"sed -n '{loop.span.line},{loop.end_line}p' {loop.span.path}",
                ),
            ),
            confidence=Confidence.SUSPECTED,
            severity=Severity.WARNING if costly else Severity.NOTE,
            subject=f"{found.span.path}:{found.span.line}",
            detail=EvaluationTooOftenDetail(
                period=found.period,
                option=option_of(found.event),
                event_line=found.event.span.line,
                event_column=found.event.span.column,
                event_path=found.event.span.path,
                norm=self.limit("eval_period"),
            ),
        )


def _acts(patient: Patient, seen: Observation) -> bool:
    """Whether the evaluations of a run are a policy that acts in an environment."""
    run = run_of(seen.recording) if seen.recording is not None else None
    gathered = experience(patient, run) if run is not None else None
    return gathered is not None and gathered.evaluation > 0


def _evaluations(loop: Loop) -> Iterator[_Evaluation]:
    """Evaluations that one pass reaches, each at its most frequent event."""
    best: dict[int, _Evaluation] = {}
    named: list[_Evaluation] = []
    for event in loop.events:
        own = next((item for item in event.inner if item.role is LoopRole.EVALUATION), None)
        if own is None:
            if event.call is not None and _by_name(event):
                period = _period(event)
                if period is not None:
                    named.append(_Evaluation(event, event.span, period, None))
            continue
        period = _period(event)
        if period is None or not own.confident or _trains(event) or _in_while(event, own):
            continue
        if own.function.rpartition(".")[2] == "forward":
            continue  # a network's own loop over parts of its input
        elsewhere = (own.span.path, own.function) != (loop.span.path, loop.function)
        told = _OF_DATA if _EVALUATES.search(own.function) else _OF_A_SET
        if elsewhere and own.iterates.startswith("range(") and not told.search(own.iterates):
            continue  # draws of a sampler, tries of an adversary: the step needs what the function returns
        span = event.via[0] if event.via else own.span
        found = best.get(id(own))
        if found is None or period < found.period:
            best[id(own)] = _Evaluation(event, span, period, own)
    yield from best.values()
    yield from named  # what was followed to its loop stands at the same place and came first


def _feeds_the_step(source: Source, loop: Loop, own: Loop) -> bool:
    """Whether what an inner loop computes goes into the backward of the pass: it is a part of the forward."""
    flow = GraphFlow(source, loop)
    inside = [event for event in loop.events if any(inner is own for inner in event.inner) and not event.no_grad]
    # A network that both use is no flow; a sum that the inner loop adds to is.
    return any(
        flow.key(ast.unparse(event.node.target), event.via) in flow.upstream
        for event in inside
        if isinstance(event.node, ast.AugAssign)
    )


def _needed_by_the_loss(script: Script, loop: Loop, own: Loop) -> bool:
    """Whether the backward pass needs values that an inner loop makes, without their graph: a teacher's passes
    whose spread weighs the loss are a part of the step."""
    outer, inner = loop_node(script, loop), loop_node(script, own)
    if outer is None or inner is None or outer not in enclosing(script, inner):
        return False
    return feeds_backward(outer, inner)


def _in_while(event: Event, own: Loop) -> bool:
    """Whether the evaluation is inside a `while` of the pass: it may run on no step (`while batch is None`)."""
    return any(not item.iterates for item in takewhile(lambda item: item is not own, event.inner))


def _trains(event: Event) -> bool:
    return any(item.role is LoopRole.TRAINING for item in event.inner)


def _by_name(event: Event) -> bool:
    """A call of an evaluation that is not followed: an engine's, or one by name over a set by name."""
    call = event.call
    if call is None or event.evaluation:
        return False
    if call.name in _METHODS:
        return True
    named = _NAMES.match(call.method) and not call.name.startswith(("torch.", "numpy.", "evaluate."))
    values = [item.text for item in (*call.positional, *call.keywords.values())]
    return bool(named) and any(_SETS.search(text.lower()) for text in values)


def _period(event: Event) -> float | None:
    if any(guard.never or guard.kind in (GuardKind.ONCE, GuardKind.FAILURE) for guard in event.guards):
        return None
    period = event.period
    if isinstance(period, Known) and isinstance(period.value, int | float) and period.value >= 1:
        return float(period.value)
    return None
