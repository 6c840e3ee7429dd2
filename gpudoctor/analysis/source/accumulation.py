"""Gradient accumulation: how many micro-batches make a step, and how the loss is scaled before backward."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.source.control_flow import bound_to
from gpudoctor.analysis.source.dataflow import result, returned
from gpudoctor.analysis.source.optimizers import assignments_to
from gpudoctor.analysis.source.scopes import Key, Scope, Scopes
from gpudoctor.analysis.source.step_order import Kind, StepOp, StepOrder, periodic
from gpudoctor.analysis.source.syntax import is_name, receiver
from gpudoctor.model.signs.source import Call, Event, GuardKind, Known, Loop, Script, Source, Value

ACCUMULATION = re.compile(r"accum|micro", re.IGNORECASE)
"""Names that speak of accumulation."""
_CHAINS = frozenset({"mean", "sum", "to", "float", "double", "half", "squeeze", "view", "cuda", "reshape"})
_LOSS = re.compile(r"criter|loss|objective|model|net$|network", re.IGNORECASE)
_SCALES = re.compile(r"div|mul|scale|normali[sz]e", re.IGNORECASE)


class LossFlow:
    """The arithmetic that leads to one loss of one pass."""

    def __init__(self, source: Source, loop: Loop) -> None:
        self._scopes = Scopes(source, loop)
        self._calls = {event.node: event.call for event in loop.events if event.call is not None}
        self._within: dict[Scope, list[Event]] = {}
        self._returns: dict[Key, list[Event]] = {}
        for event in loop.events:
            self._within.setdefault(event.via, []).append(event)
            if isinstance(event.node, ast.Return) and event.via:
                self._returns.setdefault(returned(event.via), []).append(event)

    def scaled(self, loss: ast.expr, event: Event, count: str) -> bool:
        """Whether the loss may be scaled on its way: by anything at all, or where the reader cannot follow."""
        word = re.compile(rf"(?<![\w.]){re.escape(count)}(?!\w)") if not count.isdigit() else None
        for node, _ in self._parts(loss, event.via):
            if node is None:
                return True
            if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div | ast.Mult):
                return True
            text = ast.unparse(node)
            if "'sum'" in text or (word is not None and word.search(text)):
                return True
            if isinstance(node, ast.Call) and self._unknown(node):
                return True
        return False

    def division(self, loss: ast.expr, event: Event, by: re.Pattern[str]) -> ast.expr | ast.AugAssign | None:
        """Where the loss is divided by something of a name."""
        for node, _ in self._parts(loss, event.via):
            if not isinstance(node, ast.BinOp | ast.AugAssign) or not isinstance(node.op, ast.Div):
                continue
            divisor = node.right if isinstance(node, ast.BinOp) else node.value
            if by.search(ast.unparse(divisor)):
                return node
        return None

    def _unknown(self, node: ast.Call) -> bool:
        """Whether a call may scale its result without anybody seeing it."""
        call = self._calls.get(node)
        last = ast.unparse(node.func).rsplit(".", 1)[-1]
        if _SCALES.search(last):
            return True
        if call is None:
            return True
        if call.name.startswith(("torch.nn.", "torch.Tensor.")) or last in _CHAINS:
            return False
        return not _LOSS.search(last)

    def _parts(self, node: ast.expr, via: Scope) -> Iterator[tuple[ast.AST | None, Scope]]:
        """Expressions whose value the loss is, or is made of by sums; None where the trail is lost."""
        waiting: list[tuple[ast.expr, Scope]] = [(node, via)]
        seen: set[tuple[Scope, str]] = set()
        while waiting:
            item, scope = waiting.pop()
            key = scope, ast.unparse(item)
            if key in seen:
                continue
            seen.add(key)
            if isinstance(item, ast.Name | ast.Attribute):
                waiting += self._sources(item, scope) or [(part, scope) for part in _owner(item)]
                yield from ((part, scope) for part in self._in_place(key[1], scope))
                if not self._sources(item, scope) and not list(_owner(item)):
                    yield None, scope
            elif isinstance(item, ast.BinOp):
                yield item, scope
                waiting += [(item.left, scope), (item.right, scope)]
            elif isinstance(item, ast.UnaryOp):
                waiting.append((item.operand, scope))
            elif isinstance(item, ast.Subscript):
                waiting.append((item.value, scope))
            elif isinstance(item, ast.IfExp):
                waiting += [(item.body, scope), (item.orelse, scope)]
            elif isinstance(item, ast.Tuple):
                waiting += [(part, scope) for part in item.elts]
            elif isinstance(item, ast.Call):
                inner = list(self._returned(item, scope))
                inside = receiver(item)
                call = self._calls.get(item)
                model = call is not None and call.name.startswith("torch.nn.")
                if inner and not model:
                    waiting += inner
                else:
                    yield item, scope
                    if inside is not None and ast.unparse(item.func).rsplit(".", 1)[-1] in _CHAINS:
                        waiting.append((inside, scope))
            elif not isinstance(item, ast.Constant):
                yield None, scope

    def _returned(self, node: ast.Call, scope: Scope) -> Iterator[tuple[ast.expr, Scope]]:
        for event in self._returns.get(result(node, scope), ()):
            assert isinstance(event.node, ast.Return)
            if event.node.value is not None:
                yield event.node.value, event.via

    def _sources(self, node: ast.Name | ast.Attribute, scope: Scope) -> list[tuple[ast.expr, Scope]]:
        """What is assigned to a name in the pass, or given for a parameter."""
        text = ast.unparse(node)
        found: list[tuple[ast.expr, Scope]] = []
        for event in self._within.get(scope, ()):
            part = event.node
            if isinstance(part, ast.Assign):
                for target in part.targets:
                    names = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
                    if any(ast.unparse(name) == text for name in names):
                        found.append((part.value, scope))
            elif (
                isinstance(part, ast.AnnAssign | ast.AugAssign)
                and part.value is not None
                and ast.unparse(part.target) == text
            ):
                found.append((part.value, scope))
        given = self._scopes.passed(node, scope) if not found else None
        return found if given is None else [given]

    def _in_place(self, text: str, scope: Scope) -> Iterator[ast.AST]:
        """`loss /= n` and `loss.div_(n)`."""
        for event in self._within.get(scope, ()):
            node, call = event.node, event.call
            mine = call is not None and call.receiver == text and _SCALES.search(call.method)
            if mine or (isinstance(node, ast.AugAssign) and ast.unparse(node.target) == text):
                yield node


def _owner(node: ast.Name | ast.Attribute) -> Iterator[ast.expr]:
    """`outputs` of `outputs.loss`; nothing for an attribute of self."""
    if isinstance(node, ast.Attribute) and not (is_name(node.value, "self")):
        yield node.value


@dataclass(frozen=True, slots=True)
class Cycle:
    """How a loop accumulates: several backwards to a step."""

    step: StepOp
    backward: StepOp
    count: str
    """Micro-batches to a step, as written."""
    line: int
    """The guard of the step, or the inner loop of the backward."""
    nested: bool
    """Whether an inner loop makes the micro-batches."""


def cycle_of(one: StepOrder) -> Cycle | None:
    """The accumulation that a pass shows; None when it steps after each backward, or nobody can tell."""
    steps, backwards = one.of(Kind.STEP), one.of(Kind.BACKWARD)
    if not steps or not backwards:
        return None
    guards = [periodic(item.event) for item in steps]
    guard = guards[0]
    if guard is not None and all(other is not None and other.line == guard.line for other in guards):
        free = [b for b in backwards if all(g.line != guard.line for g in b.event.guards)]
        count = _count(guard.period)
        if len(free) == len(backwards) and count:
            return Cycle(steps[0], free[0], count, guard.line, False)
        return None
    back = backwards[0]
    inner = back.event.inner
    if len(inner) == 1 and not any(item.event.inner for item in steps) and len(backwards) == 1:
        counted = re.fullmatch(r"range\((?:0, *)?([\w.\[\]'\"]+)\)", inner[0].iterates)
        if counted and ACCUMULATION.search(counted[1]) and not any(guards):
            return Cycle(steps[0], back, counted[1], inner[0].span.line, True)
    return None


def _count(period: Value | None) -> str:
    """N as it is written, when it is a plain name or number."""
    if period is None:
        return ""
    text = period.text or (str(period.value) if isinstance(period, Known) else "")
    return text if re.fullmatch(r"[\w.\[\]'\"]+", text) else ""


def each_micro_batch(item: StepOp, cycle: Cycle) -> bool:
    """Whether a call runs on each micro-batch, and not once a step."""
    if cycle.nested:
        return any(loop.span.line == cycle.line for loop in item.event.inner)
    return not any(
        guard.kind in {GuardKind.PERIOD, GuardKind.ONCE, GuardKind.OTHER} for guard in item.event.guards
    )


def divides_itself(source: Source, call: Call) -> bool:
    """Whether `backward` belongs to an engine that divides: Accelerate that was told the count, DeepSpeed."""
    if call.name.startswith("accelerate."):
        return _accelerate_told(source)
    return not (
        call.name.endswith((".Tensor.backward", ".manual_backward"))
        or call.name == "?.backward"
        or call.name.startswith("lightning.")
    )


def rescaled(one: StepOrder) -> bool:
    """Whether gradients are scaled before the step, by hand or by a function that says so."""
    for event in one.loop.events:
        node = event.node
        if isinstance(node, ast.AugAssign) and "grad" in ast.unparse(node.target):
            return True
        if isinstance(node, ast.Assign) and any(ast.unparse(item).endswith(".grad") for item in node.targets):
            return True
        call = event.call
        if call is not None and re.search(
            r"scale_grad|normalize_grad|grad\w{0,60}_scale|div_|mul_", call.method
        ):
            return True
    return False


def counts_micro_batches(one: StepOrder, item: StepOp, count: str) -> bool:
    """Whether Accelerate steps the scheduler, or its length is counted in batches of the loader."""
    name = item.subject.rsplit(".", 1)[-1]
    for script in one.scripts.values():
        if _accelerate_counts(one, script, name):
            return True
        for call in script.calls:
            if bound_to(script, call.node).rsplit(".", 1)[-1] == name and call.node.args + call.node.keywords:
                text = _written_out(script, call.node)
                if ACCUMULATION.search(text) or re.search(rf"//? *{re.escape(count)}\b", text):
                    return False
                if re.search(r"len\(|steps|total|max_it", text):
                    return True
    return False


def _accelerate_counts(one: StepOrder, script: Script, name: str) -> bool:
    """Whether a scheduler is Accelerate's, and steps with the optimizer: Accelerate knows of the accumulation.

    It knows by `accelerator.accumulate`, or by its own count; else the scheduler steps whenever it is told to.
    """
    if "accelerate" not in {target.split(".")[0] for target in script.imports.values()}:
        return False
    told = any(one.loop.calls("accelerate.Accelerator.accumulate")) or _accelerate_told(one.source)
    prepared = [call.node for call in script.calls if call.method in {"prepare", "prepare_scheduler"}]
    given = [part for node in prepared for part in node.args]
    theirs = any(
        isinstance(part, ast.Starred) or ast.unparse(part).rsplit(".", 1)[-1] == name for part in given
    )
    return told and (theirs or not prepared)


def _accelerate_told(source: Source) -> bool:
    """Whether an Accelerator knows how many micro-batches make a step; taken so where none is seen made."""
    made = [item for script in source.scripts for item in script.calls_to("accelerate.Accelerator")]
    count = {"gradient_accumulation_steps", "gradient_accumulation_plugin"}
    return not made or any(item.open_ended or count & set(item.keywords) for item in made)


def _written_out(script: Script, node: ast.Call) -> str:
    """A call, with the expressions behind the names in it; its first argument is the optimizer."""
    given = [*node.args[1:], *(item.value for item in node.keywords if item.arg != "optimizer")]
    names = {part.id for value in given for part in ast.walk(value) if isinstance(part, ast.Name)}
    behind = [value for name in sorted(names) for _, value in assignments_to(script.tree, name)]
    return " ".join(ast.unparse(item) for item in (node, *behind))
