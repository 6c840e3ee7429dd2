"""LOOP011: a distillation teacher runs with gradients, or in training mode."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpudoctor.analysis.observation import confirmed, suspicions
from gpudoctor.analysis.run.line_costs import place_of
from gpudoctor.analysis.run.steady_run import Run, judged, spots
from gpudoctor.analysis.run.untrained_models import Inner, inner_teacher, teachers
from gpudoctor.analysis.source.control_flow import bound_to, enclosing, steady
from gpudoctor.analysis.source.optimizers import optimizers
from gpudoctor.analysis.source.scopes import Scopes
from gpudoctor.analysis.source.syntax import is_attribute, nodes
from gpudoctor.analysis.source.syntax_places import place
from gpudoctor.analysis.source.train_eval_mode import forwards, mode_layers, model_of, named_layers, resolved, verb
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
    Threshold,
)
from gpudoctor.model.signs.recording import Record
from gpudoctor.model.signs.source import Call, Event, Script, Source
from gpudoctor.text import percent
from gpudoctor_checks.loop.averaged_models import Meeting, meetings

_TEACHER = re.compile(r"teacher", re.IGNORECASE)
_AVERAGED = re.compile(r"(^|_|\b)ema(_|\b)|momentum|moving_average|mean_?teacher|polyak|byol|dino", re.IGNORECASE)
_LAYERS = re.compile(r"Dropout|BatchNorm|Transformer|dropout")
_FREEZES = re.compile(r"freeze|requires_grad|no_grad|detach_model", re.IGNORECASE)
_GIVES_WEIGHTS = re.compile(r"load|pretrained|copy|ema|momentum|average|hub|init_from|parameters\(", re.IGNORECASE)
_OPTIMIZERS = re.compile(r"^(torch\.optim\.(?!lr_scheduler)[A-Z]\w*|.*\.(Adam\w*|SGD|Lion|Adafactor))$")


@dataclass(frozen=True, slots=True)
class _Use:
    event: Event
    name: str
    """The teacher as written at the call."""
    origin: str
    """The teacher's name where it comes from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TeacherTrainedDetail(Detail):
    """What the rule reads."""

    how: str
    """`graph` or `mode`."""
    teacher: str
    """Its name."""
    call: str
    """Place of the call that the edit is about."""


class TeacherTrained(Check):
    """A distillation teacher runs as if it were trained.

    What it finds:
        In a training loop, the forward of a model called teacher that builds a graph. It has no
        `torch.no_grad()` around it, its parameters are not frozen, and its output is not detached. The same
        holds for a moving average of the trained model (a momentum encoder, a target network). Both outputs
        must go into the loss. A teacher that is built in training mode and never set to eval mode. The program
        has dropout or batch norm.
    Why it hurts:
        The teacher is often the larger model, and its graph keeps all activations for the whole step.
        `backward()` computes unused gradients through it. This easily costs half of the memory and a third of
        the time. A teacher in training mode gives noisy targets (dropout) and changes its batch norm statistics
        with every batch.
    How it knows:
        By the name `teacher` of what is called in the loop, followed through parameters to where it is built.
        Of an average by the loop that writes its parameters from the other's. By `no_grad` blocks and
        decorators, `requires_grad` switches, freezing helpers and `.eval()` calls. From a recording: a second
        model that runs with gradients but is in no optimizer. A note if forward and backward passes take little
        of the time (an environment, data, logs take the rest).
    False alarms:
        A teacher that an optimizer trains is not a finding (mutual learning, or a rebuilt head that is
        optimized). Neither is the mode of an averaged one (mean teacher, DINO), which should be in training
        mode. `from_pretrained` gives eval mode. A model that is not called a teacher and keeps its first
        weights was forgotten: NUM008 reports it.
    Remedies:
        Put `with torch.no_grad():` around the teacher's forward pass, and call `teacher.eval()` after building
        it.
    References:
        - https://docs.pytorch.org/tutorials/beginner/knowledge_distillation_tutorial.html
    """

    code = Code("LOOP011")
    name = "teacher-trained"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    severity = Severity.WARNING
    thresholds = (
        Threshold(
            name="forwards",
            default=20,
            unit="{steps}",
            source="convention: correctness counts in events",
            meaning="Fewer forward passes of a teacher with gradients in a recording are not judged.",
        ),
        Threshold(
            name="passes",
            default=0.2,
            unit="1",
            source="convention: half of the passes is the teacher's, a tenth of a step is worth a warning",
            meaning="If forward and backward passes take less of a recorded run, it is a note.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = judged(patient, 1)
        suspected = suspicions(lambda: self._suspected(patient), run)
        readings = teachers(patient, run.lead.process, self.limit("forwards")) if run else []
        inner = inner_teacher(patient, run.lead.process) if run is not None and not readings else None
        if run is not None and inner is not None:
            yield self._inner(run, inner, suspected)
            return
        if run is None or not readings:
            yield from suspected
            return
        last = readings[-1]
        where, steps = place_of(last), int(last.get("steps") or 0)
        yield confirmed(
            self,
            [item for item in suspected if item.detail_of(TeacherTrainedDetail).how == "graph"],
            say(
                "{last} built a graph in {steps} training steps{use}: it keeps activations that are never used.",
                last=last.get("model") or say("A second model"),
                steps=steps,
                use=_use(last),
            ),
            evidence=(*spots(patient, where), run.measured("forward_passes", steps, "{steps}")),
            severity=self._worth(run),
            detail=TeacherTrainedDetail(how="graph", teacher=str(last.get("model") or ""), call=""),
        )
        yield from (item for item in suspected if item.detail_of(TeacherTrainedDetail).how != "graph")

    def _worth(self, run: Run) -> Severity:
        """A graph for nothing wastes a part of the passes: little where these take little of the time."""
        passes = run.share("forward") + run.share("backward")
        return Severity.WARNING if passes >= self.limit("passes") else Severity.NOTE

    def _inner(self, run: Run, inner: Inner, suspected: Sequence[Finding]) -> Finding:
        """A part of the trained model: a module that distils holds teacher and student."""
        name = ast.unparse(inner.call.node.func)
        return confirmed(
            self,
            [item for item in suspected if item.detail_of(TeacherTrainedDetail).how == "graph"],
            say(
                "{name} gets gradients in every step, but no optimizer has its {parameters} parameters "
                "({inner_share} of the trainable elements). The backward pass through it is wasted.",
                name=name,
                parameters=inner.parameters,
                inner_share=percent(inner.share),
            ),
            evidence=(inner.call.span, run.measured("unheld_share", inner.share)),
            severity=self._worth(run),
            detail=TeacherTrainedDetail(how="graph", teacher=name, call=place(inner.call.span)),
        )

    def _suspected(self, patient: Patient) -> Iterator[Finding]:
        source = patient.source
        said: set[object] = set()
        for use in _uses(source):
            last = use.origin.rsplit(".", 1)[-1]
            if _optimized(source, last) or _learns_with_its_owner(source, use):
                continue
            if use.event.node not in said and not use.event.no_grad and not _frozen(source, last, use):
                said.add(use.event.node)
                yield self._graph(use)
            built = _built(source, last)
            if built is not None and built[1].node not in said and _in_training_mode(source, last, built[1]):
                said.add(built[1].node)
                yield self._mode(use, *built, named_layers(source))

        for meeting in meetings(source) if source.trains else ():
            name = ast.unparse(meeting.call.node.func)
            known = meeting.call.node in said or _TEACHER.search(meeting.average.name)
            if not known and not _held_still(source, meeting.average.name, meeting.script, meeting.call.node):
                said.add(meeting.call.node)
                yield self._averaged(meeting, name)

    def _averaged(self, meeting: Meeting, name: str) -> Finding:
        span = meeting.call.span
        return self.finding(
            say(
                "{name} gets its weights from {source}, but runs with gradients. Its output goes "
                "into the loss without torch.no_grad() or detach(), and its parameters are not frozen.",
                name=name,
                source=meeting.average.source,
            ),
            evidence=(span,),
            confidence=Confidence.SUSPECTED,
            cost=Cost(breaks=say("the loss moves the targets as well as the model")),
            subject=f"{span.path}:{span.line}",
            detail=TeacherTrainedDetail(how="graph", teacher=name, call=place(span)),
        )

    def _graph(self, use: _Use) -> Finding:
        evidence: tuple[Evidence, ...] = (use.event.span, *use.event.via)
        return self.finding(
            say(
                "{use} runs with gradients on each training step, without torch.no_grad(), and its "
                "parameters "
                "are not frozen.",
                use=use.name,
            ),
            evidence=evidence,
            confidence=Confidence.SUSPECTED,
            subject=f"{use.event.span.path}:{use.event.span.line}",
            detail=TeacherTrainedDetail(how="graph", teacher=use.name, call=place(use.event.span)),
        )

    def _mode(self, use: _Use, script: Script, call: Call, layers: str) -> Finding:
        name = bound_to(script, call.node)
        return self.finding(
            say(
                "{name} is built in training mode and never set to eval mode. While it computes the targets, "
                "its {layers} {verb} as in training.",
                name=name,
                layers=layers,
                verb=verb(layers),
            ),
            evidence=(call.span, use.event.span),
            confidence=Confidence.SUSPECTED,
            subject=f"{call.span.path}:{call.span.line}",
            detail=TeacherTrainedDetail(how="mode", teacher=name, call=place(call.span)),
        )


def _use(reading: Record) -> str:
    if reading.get("reached"):
        return say(", gradients were computed through it, but no optimizer has its parameters")
    return say(" that no backward pass used")


def _uses(source: Source) -> Iterator[_Use]:
    for _, loop in source.training_loops:
        if not any(event.call is not None and _TEACHER.search(event.span.text) for event in loop.events):
            continue
        scopes = Scopes(source, loop)
        for event in forwards(loop):
            call = event.call
            if call is None or not steady(event):
                continue
            name = model_of(call)
            origin = str(resolved(scopes, name, event.via)[1])
            if _TEACHER.search(origin.rsplit(".", 1)[-1]) or _TEACHER.search(name.rsplit(".", 1)[-1]):
                yield _Use(event, name, origin)


def _optimized(source: Source, last: str) -> bool:
    """Whether an optimizer is given the teacher's parameters."""
    word = re.compile(rf"\b{re.escape(last)}\b")
    if any(word.search(root) for held in optimizers(source) for root in held.roots):
        return True  # in groups that a name of their own holds, too
    return any(
        _OPTIMIZERS.match(call.name) and word.search(ast.unparse(call.node))
        for script in source.scripts
        for call in script.calls
    )


def _learns_with_its_owner(source: Source, use: _Use) -> bool:
    """Whether an optimizer holds the module that owns the teacher, and nothing gives the teacher weights.

    A teacher that is built anew, never loaded, copied or averaged, knows only what it learns.
    """
    call = use.event.call
    owner = call.function.split(".")[0] if call is not None and use.name.startswith("self.") else ""
    if not owner or not any(_given_to_optimizer(script, owner) for script in source.scripts):
        return False
    word = re.compile(rf"\b{re.escape(use.name.rsplit('.', 1)[-1])}\b")
    built = False
    for script in source.scripts:
        for item in script.calls:
            text = ast.unparse(item.node)
            built = built or word.search(bound_to(script, item.node)) is not None
            named = word.search(text) or word.search(bound_to(script, item.node))
            if named and item.node is not use.event.node and _GIVES_WEIGHTS.search(text):
                return False
    return built


def _given_to_optimizer(script: Script, owner: str) -> bool:
    """Whether an optimizer is given all parameters of an instance of a class."""
    given = {
        id(part)
        for call in script.calls
        if _OPTIMIZERS.match(call.name)
        for part in ast.walk(call.node)
        if isinstance(part, ast.Call)
    }
    return any(
        call.method == "parameters" and call.receiver_class == owner and id(call.node) in given for call in script.calls
    )


def _frozen(source: Source, last: str, use: _Use) -> bool:
    """Whether its parameters are frozen somewhere, or its output is cut off where it is called."""
    here = next((script for script in source.scripts if script.path == use.event.span.path), None)
    names = {last, use.name.rsplit(".", 1)[-1]}
    return any(_held_still(source, name, here, use.event.node) for name in names)


def _held_still(source: Source, name: str, here: Script | None, node: ast.AST) -> bool:
    """The same of a model by the last part of its name, and one call of it."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    if here is not None and _detached(here, node):
        return True
    for script in source.scripts:
        for call in script.calls:
            named = ast.unparse(call.node) + " " + bound_to(script, call.node)
            if _FREEZES.search(call.method) and word.search(named):
                return True
        for node in nodes(script, ast.For):
            if word.search(ast.unparse(node.iter)) and "requires_grad" in ast.unparse(node):
                return True
    return False


def _detached(script: Script, node: ast.AST) -> bool:
    """`teacher(x).detach()`, `teacher(x).logits.detach()`."""
    for above in enclosing(script, node):
        if is_attribute(above, "detach", "data", "cpu", "item"):
            return above.attr != "cpu"
        if not isinstance(above, ast.Attribute | ast.Subscript | ast.Call):
            return False
    return False


def _built(source: Source, last: str) -> tuple[Script, Call] | None:
    """Where the teacher is built, when it is in one place, by a class of the program or a library's builder."""
    classes = {name for script in source.scripts for name in script.classes}
    found = [
        (script, call)
        for script in source.scripts
        for call in script.calls
        if bound_to(script, call.node).rsplit(".", 1)[-1] == last
    ]
    if len(found) != 1:
        return None
    call = found[0][1]
    known = call.method in classes or call.name.startswith(("torchvision.models.", "timm.create_model", "torch.nn."))
    return found[0] if known else None


def _in_training_mode(source: Source, last: str, built: Call) -> bool:
    """Whether nothing puts the teacher into eval mode, nor may do so out of sight."""
    text = ast.unparse(built.node)
    if not mode_layers(source) or ".eval()" in text:
        return False
    if built.name == "torch.nn.Sequential" and not _LAYERS.search(text):
        return False
    word = re.compile(rf"\b{re.escape(last)}\b")
    for script in source.scripts:
        if _AVERAGED.search(script.text):
            return False
        for call in script.calls:
            if call.node is built.node:
                continue
            if call.method in {"eval", "train"} and (word.search(call.receiver) or not call.receiver):
                return False
            given = [*call.node.args, *(item.value for item in call.node.keywords)]
            handed = any(
                isinstance(item, ast.Name | ast.Attribute) and word.search(ast.unparse(item)) for item in given
            )
            if handed and not _harmless(source, call):
                return False
        for node in nodes(script, ast.For):
            if word.search(ast.unparse(node.iter)) and ".eval()" in ast.unparse(node):
                return False
    return True


def _harmless(source: Source, call: Call) -> bool:
    """Whether a call that is given the teacher is one that the reader has seen, and it switches nothing."""
    for script in source.scripts:
        for node in nodes(script, ast.FunctionDef):
            if node.name == call.method:
                return "eval(" not in ast.unparse(node)
    return False
