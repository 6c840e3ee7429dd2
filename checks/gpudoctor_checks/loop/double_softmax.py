"""LOOP006: probabilities are given to a loss that applies softmax itself; log of a softmax."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.observation import confirmed, suspicions
from gpudoctor.analysis.run.cost_attribution import at
from gpudoctor.analysis.run.curves import numerics
from gpudoctor.analysis.run.line_costs import LinePlace, place_of
from gpudoctor.analysis.run.risky_operations import loss_lines
from gpudoctor.analysis.run.steady_run import Run, judged, spot, spots
from gpudoctor.analysis.source.control_flow import enclosing
from gpudoctor.analysis.source.probabilities import LAYERS, Made, Probabilities, given, maker
from gpudoctor.analysis.source.syntax import is_name, segment
from gpudoctor.analysis.source.syntax_places import extent, line_at, resolved_calls
from gpudoctor.lang import say
from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Cost,
    Detail,
    Finding,
    Patient,
    Reads,
    Severity,
    Threshold,
    TrackRecord,
    Unavailable,
)
from gpudoctor.model.signs.recording import Record
from gpudoctor.model.signs.source import Call, LoopRole, Script, Source

CROSS_ENTROPY = {
    "torch.nn.CrossEntropyLoss.__call__": "softmax",
    "torch.nn.functional.cross_entropy": "softmax",
}
WITH_LOGITS = {
    "torch.nn.BCEWithLogitsLoss.__call__": "sigmoid",
    "torch.nn.functional.binary_cross_entropy_with_logits": "sigmoid",
}
LOSSES = CROSS_ENTROPY | WITH_LOGITS
"""Losses that take logits, with what they apply to them."""

_MAKERS = {
    "softmax": ("torch.nn.Softmax", "torch.nn.Softmax2d"),
    "log_softmax": ("torch.nn.LogSoftmax",),
    "sigmoid": ("torch.nn.Sigmoid",),
}
"""Classes of layers, by what they apply."""
_PLACES = 2
_TAKEN = {
    "dimension": (
        say("log_softmax over another dimension than that of the classes"),
        say("the loss can fall without separating the right class from the others"),
    ),
    "softmax": (
        say("probabilities without their logarithm"),
        say("the loss hardly separates confident from unsure predictions"),
    ),
    "scores": (
        say("scores that no log_softmax has normalised"),
        say("the loss falls without limit as scores grow"),
    ),
}
"""What `nll_loss` was given instead of log-probabilities, and what comes of it."""

EVALUATES = re.compile(
    r"eval|test|valid|infer|predict|score|metric|accuracy|generate|sample|plot|visual", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class _Case:
    script: Script
    loss: Call
    argument: ast.expr
    made: Made


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubleSoftmaxDetail(Detail):
    """What the rule reads."""

    how: str
    """What the loss is given: `softmax`, `log`, ..."""
    loss: str = ""
    """The loss's name."""
    edit_at: str | None = None
    """Extent of the expression to replace."""
    edit_text: str | None = None
    """What is to stand there."""


class DoubleSoftmax(Check):
    """Probabilities are given to a loss that applies softmax or sigmoid itself.

    What it finds:
        The output of `softmax` in `CrossEntropyLoss` or `F.cross_entropy`, or of `sigmoid` in
        `BCEWithLogitsLoss`. It may be at the call, in a variable, in what `forward` returns, or in the last
        Sequential layer. Also `log(softmax(x))` (a warning), and `log_softmax` before cross-entropy, which
        changes nothing but is computed twice (a note). Inputs of `nll_loss` that are not log-probabilities of
        the classes. Examples: `log_softmax` over another dimension, softmax without a logarithm, or the scores
        themselves.
    Why it hurts:
        The loss applies softmax to its input again. The second softmax is almost flat, because its inputs are
        between 0 and 1. With 10 classes the loss cannot fall below 1.46 even for a perfect model. Gradients are
        small, and training is slow and less accurate. No error is raised. `log(softmax(x))` gives -inf, and NaN
        gradients, as soon as a probability underflows.
    How it knows:
        It follows the loss's first argument back through one training pass: assignments, reshapes, functions,
        the model's own `forward`. All paths must lead to the same function, in the pass that computes the loss.
        From a recording: the graphs of the first losses show which operation produced the input. Functions,
        files and configs do not hide it. A recording without such a graph refutes the suspicion. For `nll_loss`
        the recorder sums the probabilities of some samples: their sum must be one.
    False alarms:
        Softmax for metrics or sampling, `if not self.training`, NLLLoss after log_softmax, soft targets as the
        second argument and evaluation are not findings. Nor is a softmax over the first dimension.
    Remedies:
        Pass the raw logits to the loss; apply softmax only where you need probabilities, outside of the loss.
    References:
        - https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
        - https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.log_softmax.html
    """

    code = Code("LOOP006")
    name = "double-softmax"
    track_record = TrackRecord(right=0, wrong=2)
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    severity = Severity.ERROR
    thresholds = (
        Threshold(
            name="losses",
            default=8,
            unit="{steps}",
            source="convention: correctness counts in events",
            meaning="The inputs of fewer recorded losses are not judged.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = judged(patient, 1)
        suspected = suspicions(lambda: self._suspected(patient), run)
        if run is not None:
            yield from self._no_probabilities(patient, run)
        seen = numerics(run.lead.process, "normalised")[-1:] if run is not None else []
        if run is None or not seen or int(seen[0].get("losses") or 0) < self.limit("losses"):
            yield from suspected
            return
        found = {str(how): int(count) for how, count in seen[0].get("made_by") or ()}
        for how, count in found.items():
            if count >= self.limit("losses"):
                yield self._measured(patient, run, seen[0], how, count, suspected)
        # What the source suspects of a loss and no graph shows is of another loss, or no fault.
        yield from (item for item in suspected if item.detail_of(DoubleSoftmaxDetail).how == "log")

    def _measured(
        self, patient: Patient, run: Run, seen: Record, how: str, count: int, suspected: list[Finding]
    ) -> Finding:
        applies = "sigmoid" if how == "sigmoid" else "softmax"
        where = place_of(seen)
        spans = [*(spot(patient, place) for place in made_at(patient, how)[:_PLACES])]
        spans += [spot(patient, place) for place in loss_lines(patient)[:_PLACES]]
        spans += spots(patient, where)
        wrong = how != "log_softmax"
        said = (
            say("the result is the same, computed twice")
            if not wrong
            else say("it applies it to probabilities")
        )
        base = [item for item in suspected if item.detail_of(DoubleSoftmaxDetail).how == how]
        return confirmed(
            self,
            base[:1],
            say(
                "The loss applies {applies} itself, and its input was already the output of {how} in "
                "{count} of "
                "{seen} losses: {said}{at}.",
                applies=applies,
                how=how,
                count=count,
                seen=int(seen.get("losses") or 0),
                said=said,
                at=at(spans),
            ),
            evidence=(
                *list(dict.fromkeys(spans)),
                run.measured("losses_of_probabilities", count, "{steps}"),
            ),
            severity=Severity.ERROR if wrong else Severity.NOTE,
            cost=Cost(breaks=_breaks(how) if wrong else None),
            detail=DoubleSoftmaxDetail(how=how, loss=say("the loss")),
        )

    def _no_probabilities(self, patient: Patient, run: Run) -> Iterator[Finding]:
        """What `nll_loss` takes for log-probabilities, and what does not sum to one over the classes."""
        for record in numerics(run.lead.process, "unnormalised")[-1:]:
            how, count = max(record.get("made_by") or (("", 0),), key=lambda item: int(item[1]))
            of = int(record.get("losses") or 0)
            if count < self.limit("losses") or 2 * count < of or how not in _TAKEN:
                continue
            where = place_of(record)
            maker_of = {"dimension": "log_softmax", "softmax": "softmax"}.get(how)
            places = made_at(patient, maker_of)[:_PLACES] if maker_of else []
            places += [*loss_lines(patient)[:_PLACES], *([where] if where is not None else [])]
            spans = list(dict.fromkeys(spot(patient, place) for place in places))
            what, breaks = _TAKEN[how]
            yield confirmed(
                self,
                (),
                say(
                    "nll_loss takes log-probabilities of the classes, and in {count} of {of} losses it got "
                    "{what}{at}.",
                    count=count,
                    of=of,
                    what=what,
                    at=at(spans),
                ),
                evidence=(
                    *spans,
                    run.measured("losses_without_probabilities", count, "{steps}"),
                ),
                severity=Severity.ERROR,
                cost=Cost(breaks=breaks),
                detail=DoubleSoftmaxDetail(how=how, loss="nll_loss"),
            )

    def _suspected(self, patient: Patient) -> Iterator[Finding]:
        source = patient.source
        said: set[ast.AST] = set()
        for case in _cases(source):
            if case.loss.node not in said:
                said.add(case.loss.node)
                yield self._found(case)
        for script in source.scripts:
            yield from self._logarithms(script)

    def _found(self, case: _Case) -> Finding:
        applies = LOSSES[case.loss.name]
        kind = case.made.kind
        loss = _shown(case.loss)
        home, made = case.script.span(case.loss.node), case.made.script.span(case.made.node)
        place = (
            ""
            if (home.path, home.line) == (made.path, made.line)
            else say(" ({place})", place=line_at(made, home))
        )
        wrong = kind != "log_softmax"
        if wrong:
            message = say(
                "{loss} applies {applies} itself, and its input is already the output of {name}{place}.",
                loss=loss,
                applies=applies,
                name=_name(case.made),
                place=place,
            )
        else:
            message = say(
                "{loss} applies log-softmax itself, and its input already passed through "
                "{name}{place}: "
                "the result is the same, computed twice.",
                loss=loss,
                name=_name(case.made),
                place=place,
            )
        edit = _edit(case)
        return self.finding(
            message,
            evidence=(home, made),
            confidence=Confidence.SUSPECTED,
            severity=Severity.ERROR if wrong else Severity.NOTE,
            cost=Cost(breaks=_breaks(kind)) if wrong else None,
            subject=f"{case.loss.span.path}:{case.loss.span.line}",
            detail=DoubleSoftmaxDetail(how=kind, loss=loss, edit_at=edit[0], edit_text=edit[1]),
        )

    def _logarithms(self, script: Script) -> Iterator[Finding]:
        """`torch.log(F.softmax(x))`, `F.softmax(x).log()`."""
        calls = resolved_calls(script)
        for call in script.calls_to("torch.log", "torch.Tensor.log", "?.log"):
            if EVALUATES.search(call.function):
                continue
            inner = _input(call) if call.name == "torch.log" else given(call)
            made = calls.get(inner) if isinstance(inner, ast.Call) else None
            if made is None or maker(made) != "softmax" or _once(script, call):
                continue
            yield self.finding(
                say(
                    "{expression} takes the logarithm of a softmax: it is -inf as soon as a "
                    "probability underflows, and its gradient NaN.",
                    expression=ast.unparse(call.node),
                ),
                evidence=(call.span,),
                confidence=Confidence.SUSPECTED,
                severity=Severity.WARNING,
                subject=f"{call.span.path}:{call.span.line}",
                detail=DoubleSoftmaxDetail(
                    how="log", edit_at=extent(script, call.node), edit_text=_logarithm(made)
                ),
            )


def _once(script: Script, call: Call) -> bool:
    """Whether a statement outside of functions and loops: it runs once, a demonstration, and trains nothing."""
    around = enclosing(script, call.node)
    return not call.function and not any(isinstance(outer, ast.For | ast.While) for outer in around)


def _breaks(kind: str) -> str:
    return say(
        "the loss sees {kind} of {kind} and cannot separate confident from unsure ones: training learns little",
        kind=kind,
    )


def made_at(patient: Patient, how: str) -> list[LinePlace]:
    """Lines of the source that apply softmax, log-softmax or sigmoid outside of evaluations."""
    try:
        source = patient.source
    except Unavailable:
        return []
    return [
        LinePlace(path=script.path, line=call.span.line)
        for script in source.scripts
        for call in script.calls
        if not EVALUATES.search(call.function) and (maker(call) == how or call.name in _MAKERS[how])
    ]


def _cases(source: Source) -> Iterator[_Case]:
    seen: set[ast.AST] = set()
    evaluated: set[ast.AST] = set()
    for script in source.scripts:
        for loop in script.loops:
            if loop.role is LoopRole.TRAINING and any(_loss_call(event.call) for event in loop.events):
                flow = Probabilities(source, loop)
                for event in flow.walk():
                    call = event.call
                    if call is None or not _loss_call(call) or event.node is not call.node:
                        continue
                    (evaluated if event.evaluation else seen).add(call.node)
                    argument = _input(call)
                    made = None if event.evaluation else flow.origin(argument, event)
                    owner = next((item for item in source.scripts if item.path == call.span.path), None)
                    if argument is not None and owner is not None and _fits(call, made):
                        assert isinstance(made, Made)
                        yield _Case(owner, call, argument, made)
            elif loop.role is LoopRole.EVALUATION:
                evaluated |= {event.node for event in loop.events}
    for script in source.scripts:
        for call in script.calls_to(*LOSSES):
            unseen = call.node not in seen and call.node not in evaluated
            if unseen and not EVALUATES.search(call.function):
                yield from _plain(script, call)


def _plain(script: Script, call: Call) -> Iterator[_Case]:
    """A loss outside of any loop that is read: softmax in its own argument."""
    argument = _input(call)
    made = resolved_calls(script).get(argument) if argument is not None else None
    kind = maker(made) if made is not None else None
    if made is None or kind is None or argument is None:
        return
    origin = Made(kind, script, made.node, given(made), ())
    if _fits(call, origin):
        yield _Case(script, call, argument, origin)


def _loss_call(call: Call | None) -> bool:
    return call is not None and call.name in LOSSES


def _input(call: Call) -> ast.expr | None:
    for keyword in call.node.keywords:
        if keyword.arg == "input":
            return keyword.value
    first = call.node.args[0] if call.node.args else None
    return None if isinstance(first, ast.Starred) else first


def _fits(call: Call, made: object) -> bool:
    if not isinstance(made, Made):
        return False
    if call.name in CROSS_ENTROPY:
        return made.kind in {"softmax", "log_softmax"}
    return made.kind == "sigmoid"


def _edit(case: _Case) -> tuple[str, str]:
    """Where to put what: the softmax's input for the softmax, or for the loss's argument."""
    made = case.made
    if made.source is None:
        layer = ast.unparse(made.node.func).rpartition(".")
        identity = f"{layer[0]}.Identity()" if layer[0] else "nn.Identity()"
        known = bool(layer[0]) or made.script.imports.get("nn") == "torch.nn"
        return (extent(made.script, made.node), identity) if known else ("", "")
    logits = segment(made.script, made.source) or ast.unparse(made.source)
    if isinstance(case.argument, ast.Name) and isinstance(made.source, ast.Name) and _same_block(case):
        return extent(case.script, case.argument), logits
    return extent(made.script, made.node), logits


def _same_block(case: _Case) -> bool:
    """Whether the logits are still there under their own name where the loss is computed."""
    made, loss = case.made, case.loss
    assert isinstance(made.source, ast.Name) and isinstance(case.argument, ast.Name)
    if made.script is not case.script or made.source.id == case.argument.id:
        return False
    scopes = [
        next((item for item in enclosing(case.script, node) if isinstance(item, ast.FunctionDef)), None)
        for node in (made.node, loss.node)
    ]
    if scopes[0] is not scopes[1]:
        return False
    return not any(
        is_name(node, made.source.id)
        and isinstance(node.ctx, ast.Store)
        and made.node.lineno < node.lineno < loss.node.lineno
        for node in ast.walk(scopes[0] or case.script.tree)
    )


def _logarithm(made: Call) -> str:
    """`F.log_softmax(x, dim=1)` for `F.softmax(x, dim=1)`; the method for the method; "" for a layer."""
    if made.name in {layer + ".__call__" for layer in LAYERS}:
        return ""
    node = made.node
    prefix, _, _ = ast.unparse(node.func).rpartition("softmax")
    if not prefix:
        return ""
    arguments = ", ".join(
        [ast.unparse(item) for item in node.args] + [_keyword(item) for item in node.keywords]
    )
    return f"{prefix}log_softmax({arguments})"


def _keyword(item: ast.keyword) -> str:
    return f"{item.arg}={ast.unparse(item.value)}" if item.arg else f"**{ast.unparse(item.value)}"


def _shown(call: Call) -> str:
    owner = call.name.removesuffix(".__call__")
    return owner.rpartition(".")[2]


def _name(made: Made) -> str:
    return (
        ast.unparse(made.node.func)
        if made.source is not None
        else say("the last layer {expression}", expression=ast.unparse(made.node))
    )
