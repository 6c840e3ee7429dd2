"""The moments of a training step: backwards, clips, unscaling, optimizer steps, clears, schedules, in order.

A view of one training loop for checks that ask what comes before what. Two moments of branches that exclude
each other (`if scaler: ... else: ...`) never meet in one pass; `StepOrder.together` tells.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.control_flow import steady
from gpudoctor.analysis.source.syntax import nodes, receiver
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.signs.source import Event, Guard, GuardKind, Loop, Script, Source

OPTIMIZER = re.compile(r"optim|(^|_)opt(s|_|\[|$)|^opt[A-Z0-9]", re.IGNORECASE)
"""What an optimizer of unknown type is usually called."""
SCALER = re.compile(r"scaler", re.IGNORECASE)
SCHEDULER = re.compile(r"sched|(^|_)warm_?up", re.IGNORECASE)
CLEARS = re.compile(r"zero_?grad|clear_?grad|reset_?grad|zero_all", re.IGNORECASE)
CLIPS = frozenset({"clip_grad_norm_", "clip_grad_value_", "clip_grad_norm", "clip_grads_with_norm_", "clip_gradients"})
ENGINES = ("deepspeed.", "fairscale.", "colossalai.", "megatron.", "mmcv.", "mmengine.", "apex.")
"""Packages whose engines and wrapped optimizers do parts of a step themselves, and may clear gradients."""
OWNERS = (*ENGINES, "torch_xla.")
"""Packages that do parts of a step. torch_xla steps (`xm.optimizer_step`) but clears no gradients."""
READ = (
    "torch.",
    "torch_optimizer.",
    "transformers.",
    "bitsandbytes.",
    "timm.",
    "accelerate.",
    "lightning.",
    "tqdm.",
    "wandb.",
    "print",
    "len",
    "isinstance",
    "hasattr",
    "getattr",
    "enumerate",
    "zip",
    "range",
    "str",
)
"""What is known not to step, clear or clip for an optimizer that it is given."""


class Kind(Enum):
    """What a moment does."""

    BACKWARD = "backward"
    CLIP = "clip"
    UNSCALE = "unscale"
    STEP = "step"
    CLEAR = "clear"
    SCHEDULE = "schedule"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepOp:
    """One call of a pass that matters to the order of a step."""

    kind: Kind
    event: Event
    subject: str
    """The optimizer of a step, clear or unscaling, the scheduler of a schedule, the loss of a backward, as
    written; "" when it is not a plain expression."""
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
        self.source = source
        self.loop = loop
        self.scripts = {script.path: script for script in source.scripts}
        followed = {site for event in loop.events for site in event.via}
        self.moments = tuple(
            moment
            for event in loop.events
            for moment in _moment(event)
            # A method of the program's own that has a clip's name: what runs inside of it tells.
            if moment.kind is not Kind.CLIP or event.span not in followed
        )

    def of(self, *kinds: Kind) -> tuple[StepOp, ...]:
        """The moments of some kinds, in order."""
        return tuple(moment for moment in self.moments if moment.kind in kinds)

    def together(self, one: StepOp, other: StepOp) -> bool:
        """Whether one pass can meet both: they stand in no two branches that exclude each other."""
        mine, theirs = self._arms(one.event), self._arms(other.event)
        if any(place in theirs and theirs[place] != arm for place, arm in mine.items()):
            return False
        return not _opposed(one.event.guards, other.event.guards)

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

    def index(self, moment: StepOp) -> int:
        """Its place in the pass."""
        return self.moments.index(moment)

    @property
    def closures(self) -> bool:
        """Whether an optimizer steps by a closure, which holds the backward."""
        return any(moment.node.args and not moment.scaler for moment in self.of(Kind.STEP))

    @property
    def opaque(self) -> bool:
        """Whether a part of the step runs where the reader could not follow."""
        followed = {site for event in self.loop.events for site in event.via}
        for event in self.loop.events:
            call = event.call
            if call is None or not isinstance(event.node, ast.Call):
                continue
            if call.name.startswith(OWNERS) and call.method in {"step", "backward", "initialize"}:
                return True
            if event.span in followed or call.name.startswith(READ) or _moments_name(call.method):
                continue
            given = [*event.node.args, *(item.value for item in event.node.keywords)]
            if any(names_optimizer(part) for part in given):
                return True
        return False

    def _arms(self, event: Event) -> dict[tuple[str, int, int], str]:
        found: dict[tuple[str, int, int], str] = {}
        for span in (event.span, *event.via):
            script = self.scripts.get(span.path)
            if script is not None:
                found.update(arms(script, span.line))
        return found


def passes(source: Source) -> Iterator[StepOrder]:
    """Every training loop of a program whose step the user wrote: no engine, or one stepped by hand."""
    for _, loop in source.training_loops:
        if loop.engine is None or any(True for _ in loop.calls(".manual_backward")):
            yield StepOrder(source, loop)


def names_optimizer(node: ast.expr) -> bool:
    """Whether an expression is, by its name, an optimizer."""
    if not isinstance(node, ast.Name | ast.Attribute):
        return False
    name = ast.unparse(node).rsplit(".", 1)[-1]
    return bool(OPTIMIZER.search(name)) and "option" not in name.lower() and not SCHEDULER.search(name)


def script_of(source: Source, span: SourceSpan | None) -> Script | None:
    """The script that holds a place."""
    return next((item for item in source.scripts if span is not None and item.path == span.path), None)


def _moments_name(method: str) -> bool:
    return method in CLIPS or method in {"step", "unscale_", "backward"} or bool(CLEARS.search(method))


def _moment(event: Event) -> Iterator[StepOp]:
    call, node = event.call, event.node
    if call is None or not isinstance(node, ast.Call) or not steady(event) or call.name.startswith(OWNERS):
        return
    if call.method in {"backward", "manual_backward"}:
        yield StepOp(kind=Kind.BACKWARD, event=event, subject=_loss(node, call.name))
    elif call.method in CLIPS:
        yield StepOp(kind=Kind.CLIP, event=event, subject=ast.unparse(node.args[0]) if node.args else "")
    elif call.method == "unscale_" and node.args:
        yield StepOp(kind=Kind.UNSCALE, event=event, subject=ast.unparse(node.args[0]), scaler=call.receiver)
    elif call.method == "unscale_gradients":
        yield StepOp(kind=Kind.UNSCALE, event=event, subject="", scaler=call.receiver)
    elif CLEARS.search(call.method):
        yield StepOp(kind=Kind.CLEAR, event=event, subject=call.receiver)
    elif call.method == "step":
        yield from _step(event, node, call.name, call.receiver)


def _step(event: Event, node: ast.Call, name: str, receiver: str) -> Iterator[StepOp]:
    last = receiver.rsplit(".", 1)[-1]
    if name.endswith("GradScaler.step") or (name.startswith("?.") and SCALER.search(last)):
        if node.args:
            yield StepOp(kind=Kind.STEP, event=event, subject=ast.unparse(node.args[0]), scaler=receiver)
    elif "lr_scheduler" in name or (name.startswith("?.") and SCHEDULER.search(last)):
        yield StepOp(kind=Kind.SCHEDULE, event=event, subject=receiver)
    elif name.startswith(("torch.optim.", "bitsandbytes.", "torch_optimizer.")) or (
        name.startswith("?.") and OPTIMIZER.search(last)
    ):
        yield StepOp(kind=Kind.STEP, event=event, subject=receiver)


def _loss(node: ast.Call, name: str) -> str:
    """`loss` of `loss.backward()`, `scaler.scale(loss).backward()`, `accelerator.backward(loss)`."""
    owner = receiver(node)
    if name.endswith((".Tensor.backward", "?.backward")) and not node.args and owner is not None:
        if isinstance(owner, ast.Call) and ast.unparse(owner.func).endswith(".scale") and owner.args:
            return ast.unparse(owner.args[0])
        return ast.unparse(owner)
    return ast.unparse(node.args[0]) if node.args else (ast.unparse(owner) if owner is not None else "")


def _opposed(mine: tuple[Guard, ...], theirs: tuple[Guard, ...]) -> bool:
    """Whether one stands behind an early exit on what guards the other."""
    texts = {guard.text for guard in mine}, {guard.text for guard in theirs}
    return any(f"not ({text})" in texts[1] for text in texts[0]) or any(
        f"not ({text})" in texts[0] for text in texts[1]
    )


@once
def _branches(script: Script) -> tuple[tuple[int, int, int, int, int], ...]:
    """Each if statement: its place, its body's last line, its else's first and last line."""
    found = []
    for node in nodes(script, ast.If):
        if node.orelse:
            found.append(
                (
                    node.lineno,
                    node.col_offset,
                    node.body[-1].end_lineno or node.lineno,
                    node.orelse[0].lineno,
                    node.orelse[-1].end_lineno or node.lineno,
                )
            )
    return tuple(found)


def arms(script: Script, line: int) -> Iterator[tuple[tuple[str, int, int], str]]:
    """The branches that a line stands in: each `if` that has an else, with the arm."""
    for first, column, body_end, else_first, else_last in _branches(script):
        if first <= line <= body_end:
            yield (script.path, first, column), "body"
        elif else_first <= line <= else_last:
            yield (script.path, first, column), "else"


def apart(script: Script, one: int, other: int) -> bool:
    """Whether two lines stand in branches of one `if` that exclude each other."""
    mine, theirs = dict(arms(script, one)), dict(arms(script, other))
    return any(theirs.get(place, arm) != arm for place, arm in mine.items())


def periodic(event: Event) -> Guard | None:
    """The guard that lets an event run every N passes only, N above 1 or untold."""
    for guard in event.guards:
        if guard.kind is GuardKind.PERIOD and not guard.mostly:
            value = getattr(guard.period, "value", None)
            if value != 1:
                return guard
    return None
