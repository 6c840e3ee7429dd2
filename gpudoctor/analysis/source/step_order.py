"""The moments of a training step: backwards, clips, unscaling and optimizer steps, in order.

A view of one training loop for checks that ask what comes before what. Two moments of branches that exclude
each other (`if scaler: ... else: ...`) never meet in one pass; `StepOrder.together` tells.
"""

import ast
import re
from collections.abc import Iterator
from enum import Enum

from gpudoctor.analysis.source.control_flow import steady
from gpudoctor.analysis.source.syntax import in_order, nodes
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Event, Loop, Source

_OPTIMIZER = re.compile(r"optim(?!.{0,80}sched)|(^|_)opt(s|_|\[|$)|^opt[A-Z0-9]", re.IGNORECASE)
"""What an optimizer of unknown type is usually called."""
_CLIPS = frozenset({"clip_grad_norm_", "clip_grad_value_", "clip_grad_norm", "clip_grads_with_norm_", "clip_gradients"})
_OWNERS = ("deepspeed.", "fairscale.", "colossalai.", "megatron.", "mmcv.", "mmengine.", "apex.", "torch_xla.")
"""Packages whose engines and wrapped optimizers do parts of a step themselves."""
_READ = in_order("torch. transformers. bitsandbytes. timm. accelerate. lightning. tqdm. print len zip")
"""What is known not to step or clip for an optimizer that it is given."""


class Kind(Enum):
    """What a moment does."""

    BACKWARD = "backward"
    CLIP = "clip"
    UNSCALE = "unscale"
    STEP = "step"


@frozen(eq=False)
class StepOp:
    """One call of a pass that matters to the order of a step."""

    kind: Kind
    event: Event
    subject: str = ""
    """The optimizer of a step or unscaling, as written."""
    scaler: str = ""
    """The gradient scaler that steps or unscales, as written."""

    @property
    def node(self) -> ast.Call:
        """Its call."""
        assert isinstance(self.event.node, ast.Call)
        return self.event.node


class StepOrder:
    """The moments of one pass of a training loop."""

    def __init__(self, source: Source, loop: Loop) -> None:
        self.loop = loop
        self.scripts = {script.path: script for script in source.scripts}
        self.followed = {site for event in loop.events for site in event.via}
        self.moments = tuple(
            moment
            for event in loop.events
            for moment in _moment(event)
            # A method of the program's own that has a clip's name: what runs inside of it tells.
            if moment.kind is not Kind.CLIP or event.span not in self.followed
        )

    def of(self, *kinds: Kind) -> tuple[StepOp, ...]:
        """The moments of some kinds, in order."""
        return tuple(moment for moment in self.moments if moment.kind in kinds)

    def together(self, one: StepOp, other: StepOp) -> bool:
        """Whether one pass can meet both: they stand in no two branches that exclude each other."""
        mine, theirs = self._arms(one.event), self._arms(other.event)
        if any(theirs.get(place, arm) is not arm for place, arm in mine.items()):
            return False
        texts = [{guard.text for guard in each.event.guards} for each in (one, other)]
        return not any(f"not ({text})" in b for a, b in (texts, texts[::-1]) for text in a)

    def before(self, moment: StepOp, *kinds: Kind) -> StepOp | None:
        """The last moment of some kinds before this one; of the pass before when there is none in this."""
        return self._next(moment, tuple(reversed(self.moments)), kinds)

    def after(self, moment: StepOp, *kinds: Kind) -> StepOp | None:
        """The next moment of some kinds after this one; of the pass after when there is none in this."""
        return self._next(moment, self.moments, kinds)

    def _next(self, moment: StepOp, line: tuple[StepOp, ...], kinds: tuple[Kind, ...]) -> StepOp | None:
        at = line.index(moment)
        turned = line[at + 1 :] + line[:at]
        return next((item for item in turned if item.kind in kinds and self.together(item, moment)), None)

    @property
    def opaque(self) -> bool:
        """Whether a part of the step runs where the reader could not follow: in an engine, a closure, a helper."""
        if any(moment.node.args and not moment.scaler for moment in self.of(Kind.STEP)):
            return True
        told = {id(moment.event) for moment in self.moments}
        for event in self.loop.events:
            call = event.call
            if call is None or not isinstance(event.node, ast.Call):
                continue
            if call.name.startswith(_OWNERS) and call.method in {"step", "backward", "initialize"}:
                return True
            given = [*event.node.args, *(item.value for item in event.node.keywords)]
            names = [item for item in given if isinstance(item, ast.Name | ast.Attribute)]
            known = event.span in self.followed or call.name.startswith(_READ) or id(event) in told
            if not known and any(_OPTIMIZER.search(ast.unparse(item).rpartition(".")[2]) for item in names):
                return True
        return False

    def _arms(self, event: Event) -> dict[ast.If, bool]:
        """The branches with an else that an event stands in, or the calls that lead to it."""
        found: dict[ast.If, bool] = {}
        for span in (event.span, *event.via):
            script = self.scripts.get(span.path)
            for node in nodes(script, ast.If) if script is not None else ():
                if node.orelse and node.test.lineno < span.line <= (node.end_lineno or 0):
                    found[node] = span.line < node.orelse[0].lineno
        return found


def passes(source: Source) -> Iterator[StepOrder]:
    """Every training loop of a program whose step the user wrote: no engine, or one stepped by hand."""
    for _, loop in source.training_loops:
        if loop.engine is None or any(True for _ in loop.calls(".manual_backward")):
            yield StepOrder(source, loop)


def _moment(event: Event) -> Iterator[StepOp]:
    call, node = event.call, event.node
    if call is None or not isinstance(node, ast.Call) or not steady(event) or call.name.startswith(_OWNERS):
        return
    first, last = ast.unparse(node.args[0]) if node.args else "", call.receiver.rsplit(".", 1)[-1]
    strange = call.name.startswith("?.")
    if call.method in {"backward", "manual_backward"}:
        yield StepOp(kind=Kind.BACKWARD, event=event)
    elif call.method in _CLIPS:
        yield StepOp(kind=Kind.CLIP, event=event)
    elif call.method in {"unscale_", "unscale_gradients"}:
        yield StepOp(kind=Kind.UNSCALE, event=event, subject=first, scaler=call.receiver)
    elif call.method == "step" and (call.name.endswith("GradScaler.step") or (strange and "scaler" in last.lower())):
        if first:
            yield StepOp(kind=Kind.STEP, event=event, subject=first, scaler=call.receiver)
    elif call.method == "step" and "lr_scheduler" not in call.name:
        known = call.name.startswith(("torch.optim.", "bitsandbytes.", "torch_optimizer."))
        if known or (strange and _OPTIMIZER.search(last)):
            yield StepOp(kind=Kind.STEP, event=event, subject=call.receiver)
