"""LOOP002: evaluation without no_grad or eval(); training left in eval mode."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import Run, spots
from gpudoctor.analysis.source.control_flow import bound, loop_node
from gpudoctor.analysis.source.entry_points import training_programs
from gpudoctor.analysis.source.syntax_places import line_at, place
from gpudoctor.analysis.source.train_eval_mode import (
    LeftInEvalMode,
    forwards,
    left_during_training,
    model_of,
    off_inside,
    without_gradient,
)
from gpudoctor.lang import say
from gpudoctor.model import Cost, Detail, Finding, Patient, Reads, Severity, Threshold, Trait
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Loop, LoopRole, Script, Source
from gpudoctor.text import chained
from gpudoctor_checks.run_check import RunCheck
from gpudoctor_checks.thresholds import FORWARDS

_ENGINES = ("lightning.", "transformers.", "trl.", "fastai.", "ignite.", "composer.", "torchmetrics.")
_EVALUATES = re.compile(r"eval|valid|test|(^|_)val(_|$)|estimate_loss|infer|predict", re.IGNORECASE)
_DATA = re.compile(r"loader|(^|\W|_)(dl|data|batches|dataset|data_?iter|split)(\W|$)|batches\b", re.IGNORECASE)
_GRADIENTS = frozenset({"backward", "grad", "requires_grad_", "jacobian", "vjp", "retain_grad", "zero_grad"})


_HOW = {"eval-training": "training", "train-evaluation": "mode", "grad-evaluation": "graph"}
"""The probe's words for what the source calls so."""


_SPOILS = {
    "training": say("the model trains without the effects of its training mode"),
    "mode": say("the evaluation measures the model wrongly"),
}
"""What a measured case makes of the result; a graph that nothing uses costs time and memory only."""

_IN_EVAL = {"Dropout": say("its dropout was off"), "Norm": say("its batch norm used running statistics")}
_IN_TRAINING = {"Dropout": say("its dropout was on"), "Norm": say("its batch norm learned from the evaluation's data")}
"""What the wrong mode does to a kind of layer, by a part of the class's name."""


@frozen
class EvalModeMisuseDetail(Detail):
    """What the rule reads."""

    how: str
    """`graph`, `mode` or `training`."""
    model: str | None = None
    """Its name where the edit goes."""
    loop: str | None = None
    """Place of the loop."""
    inside: bool | None = None
    """The evaluation is inside of the training loop."""


class EvalModeMisuse(RunCheck):
    """Evaluation runs as if it were training, or training as if it were evaluation.

    What it finds:
        - An evaluation loop that runs the model without `torch.no_grad()` (or `inference_mode`). In a
          recording, also one that runs it in training mode.
        - A training loop in which `model.eval()` is called and `model.train()` never follows, so all later
          steps train in eval mode.
    Why it hurts:
        Without no_grad each batch keeps its activations. This wastes the memory of a training step, and the
        first evaluation may run out of memory. Without eval() dropout falsifies the metric, and batch norm
        includes the validation data in its statistics. If the model stays in eval mode, dropout is off and
        batch norm is frozen after the first evaluation. The model trains worse, without any message.
    How it knows:
        It reads what one pass of each loop runs, through functions. Decorators, `with` blocks and calling
        functions count too.
    False alarms:
        Lightning and Trainer switch both themselves and are not reported. Loops that need gradients of the
        input are not findings, nor is another model's eval (a teacher, an average). Neither is a network that
        switches gradients off itself. If only inputs are optimised, eval mode is intended. The source alone
        often misses who switches the mode: what it says of the mode is a note. A graph in a loop that ends
        after a few batches is also a note.
    Remedies:
        Use `@torch.no_grad()` and `model.eval()` for the evaluation, and `model.train()` before training
        continues.
    References:
        - https://docs.pytorch.org/docs/stable/notes/autograd.html#evaluation-mode-nn-module-eval
    """

    least_steps = 1
    code = "LOOP002"
    traits = frozenset({Trait.IN_EVALUATION})
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    thresholds = (
        FORWARDS,
        Threshold(
            "batches",
            10,
            "{batches}",
            "convention: a graph costs at most half of a forward pass, so ten cost five",
            "A graph is a note in an evaluation that the source limits to fewer batches.",
        ),
        Threshold(
            "evaluation",
            0.1,
            "1",
            "convention: a graph costs a part of an evaluation, and a part of a tenth is a few percent",
            "If evaluation takes a smaller share of a recorded run, a graph that it builds is a note.",
        ),
    )

    def measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        seen: set[str] = set()
        for reading in of_run.newest(run.lead.process, "mode"):
            how, steps = _HOW.get(str(reading.get("kind_of")), ""), int(reading.get("steps") or 0)
            if how and how not in seen and steps >= self.limit("forwards"):
                seen.add(how)
                yield self._found(patient, run, reading, how, suspected)
        yield from (item for item in suspected if item.detail_of(EvalModeMisuseDetail).how not in seen)

    def _found(
        self, patient: Patient, run: Run, reading: "of_run.Record", how: str, suspected: list[Finding]
    ) -> Finding:
        where = of_run.place_of(reading)
        spans = spots(patient, where)
        model, steps = str(reading.get("model") or "the model"), int(reading.get("steps") or 0)
        seen = max(steps, int(reading.get("of") or 0))  # more may have followed the reading
        affected = [str(name) for name in reading.get("affected") or ()]
        words = {
            "training": say(
                "{model} was in eval mode in {steps} of {seen} training steps that were examined: {effects}.",
                model=model,
                steps=steps,
                seen=seen,
                effects=_effects(affected, _IN_EVAL),
            ),
            "mode": say(
                "{model} ran as in training in {steps} of {seen} forward passes of an evaluation that were examined: "
                "{effects}.",
                model=model,
                steps=steps,
                seen=seen,
                effects=_effects(affected, _IN_TRAINING),
            ),
            "graph": say(
                "{steps} of {seen} forward passes of an evaluation that were examined built a graph that nothing used.",
                steps=steps,
                seen=seen,
            ),
        }
        return confirmed(
            self,
            [item for item in suspected if item.detail_of(EvalModeMisuseDetail).how == how],
            words[how],
            evidence=(*spans, run.measured("forward_passes", steps, "{steps}")),
            severity=self._worth(run) if how == "graph" else Severity.WARNING,
            cost=Cost(breaks=_SPOILS.get(how)),
            detail=EvalModeMisuseDetail(how=how),
        )

    def _worth(self, run: Run) -> Severity:
        """A graph for nothing spoils no result: it costs a part of the evaluation, and memory meanwhile."""
        return Severity.WARNING if run.share("evaluation") >= self.limit("evaluation") else Severity.NOTE

    def suspected(self, patient: Patient) -> Iterator[Finding]:
        said: set[ast.AST] = set()
        covered: set[str] = set()
        for program in training_programs(patient.source):
            covered |= {script.path for script in program.scripts}
            yield from self._program(program.source, said)
        for script in patient.source.scripts:  # programs that only evaluate
            for loop in script.loops if script.path not in covered else ():
                yield from self._evaluation(Source(scripts=(script,)), script, loop, said)

    def _program(self, source: Source, said: set[ast.AST]) -> Iterator[Finding]:
        for script in source.scripts:
            for loop in script.loops:
                yield from self._evaluation(source, script, loop, said)
        for left in left_during_training(source):
            if left.switch.node not in said:
                said.add(left.switch.node)
                yield self._training(source, left)

    def _evaluation(self, source: Source, script: Script, loop: Loop, said: set[ast.AST]) -> Iterator[Finding]:
        """The finding for a loop that evaluates and builds graphs."""
        if loop.role is not LoopRole.EVALUATION or not loop.confident or not _over_data(loop):
            return
        runs = [event for event in forwards(loop) if event.span.path == script.path]
        node = loop_node(script, loop)
        if not runs or node is None or node in said or _engine_hook(script, loop) or _needs_gradients(loop):
            return
        if not (source.trains or _EVALUATES.search(loop.function)):
            return
        said.add(node)
        if any(event.no_grad for event in runs) or without_gradient(source, script, node, loop.function):
            return
        if all(off_inside(event, loop) for event in runs):
            return
        run, passes = runs[0], bound(script, loop)
        model = model_of(run.call) if run.call is not None else say("the model")
        yield self.finding(
            say(
                "The evaluation loop at {place} runs {model} without torch.no_grad(): each batch builds a graph "
                "that nothing uses.",
                place=line_at(loop.span, run.span),
                model=model,
            ),
            evidence=(run.span, loop.span),
            # A graph for a few batches takes no time.
            severity=Severity.NOTE if passes is not None and passes < self.limit("batches") else Severity.WARNING,
            detail=EvalModeMisuseDetail(how="graph"),
        )

    def _training(self, source: Source, left: LeftInEvalMode) -> Finding:
        call = left.forward.call
        assert call is not None and left.switch.call is not None
        model = model_of(call)
        inner = left.forward.inner
        loop = next((item for item in reversed(inner) if item.role is LoopRole.TRAINING), left.loop)
        script = next((item for item in source.scripts if item.path == loop.span.path), None)
        node = loop_node(script, loop) if script is not None else None
        where = line_at(left.loop.span, left.switch.span)
        local = model if not left.forward.via or loop.function == call.function else ""
        return self.finding(
            say(
                "{receiver}.eval() runs in the loop at {where} and does not "
                "call {model}.train() again. After the first evaluation {model} trains in eval mode.",
                receiver=model_of(left.switch.call),
                where=where,
                model=model,
            ),
            evidence=(left.switch.span, *left.switch.via, left.forward.span, left.loop.span),
            severity=Severity.NOTE,
            detail=EvalModeMisuseDetail(
                how="training",
                model=local,
                inside=loop is left.loop,
                loop=place(script.span(node)) if script is not None and node is not None else "",
            ),
        )


def _over_data(loop: Loop) -> bool:
    """Whether the loop goes through a data set, and is no generation or chunk of a step."""
    return loop.iterable_type == "torch.utils.data.DataLoader" or _DATA.search(loop.iterates) is not None


def _engine_hook(script: Script, loop: Loop) -> bool:
    """Whether the loop stands in a class of an engine, which switches modes by itself."""
    owner = script.classes.get(loop.function.split(".")[0])
    return owner is not None and any(base.startswith(_ENGINES) for base in owner.bases)


def _needs_gradients(loop: Loop) -> bool:
    for event in loop.events:
        if event.call is not None and event.call.method in _GRADIENTS:
            return True
        node = event.node
        if isinstance(node, ast.Assign) and any("requires_grad" in ast.unparse(item) for item in node.targets):
            return True
    return False


def _effects(affected: Sequence[str], effects: Mapping[str, str]) -> str:
    """What the wrong mode did to the layers that the model has."""
    found = [words for kind, words in effects.items() if any(kind in name for name in affected)]
    return chained(found) or say("its layers that depend on the mode were in the wrong one")
