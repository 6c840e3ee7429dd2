"""MEM003: losses or outputs are kept with their autograd graph from step to step."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.memory_growth import MemoryGrowth, growing_things, may_grow, memory_limit, readings, rise
from gpudoctor.analysis.run.steady_run import Run, judged, source_of, spots
from gpudoctor.analysis.source.autograd_flow import GraphFlow
from gpudoctor.analysis.source.control_flow import bound_to, function_of, steady
from gpudoctor.analysis.source.step_order import Kind, StepOrder
from gpudoctor.analysis.source.syntax import is_attribute, keyword_value
from gpudoctor.lang import say, template
from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Cost,
    Evidence,
    Finding,
    LeakDetail,
    LeakKind,
    Measurement,
    Patient,
    Provenance,
    Reads,
    Severity,
    SourceSpan,
    Threshold,
    Trait,
)
from gpudoctor.model.signs.recording import Process
from gpudoctor.model.signs.source import Call, Event, GuardKind, Known, Loop, Source
from gpudoctor.text import size

KEEPS = {"append", "appendleft", "extend", "add", "insert"}
"""Methods that put a value into a container."""

INTEGERS = {"bool", "uint8", "int8", "int16", "int32", "int64", "short", "int", "long"}
"""Types of torch whose tensors carry no graph, and take none by `+=`."""

EMPTIES = {"clear", "pop", "popleft", "popitem", "reset"}
"""Methods that take values out again."""


@dataclass(frozen=True, slots=True)
class _Sink:
    event: Event
    target: str
    how: str
    """`sum`, `list` or `entry`."""
    value: ast.expr


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRetainedDetail(LeakDetail):
    """What is kept, and where it stands."""

    kind: LeakKind = LeakKind.GRAPHS
    value: str = ""
    """The expression; "" where the recorder saw only the container."""


class GraphRetained(Check):
    """Losses or outputs are kept with their autograd graph from step to step.

    What it finds:
        `total += loss`, `total = total + loss`, `losses.append(loss)` or `history[step] = outputs` in a
        training loop, or in helpers such as `AverageMeter.update`. The value still has its graph, and the sum
        or container lives longer than the step.
    Why it hurts:
        The kept tensor keeps its graph. After `backward()` the saved activations of that graph are gone, but
        its nodes and the tensor stay. Each step adds a chain that is never freed. Host and GPU memory grow
        until the epoch ends or the process dies. A value without any `backward()` (an auxiliary loss that is
        only logged) keeps all activations of its step alive. A few steps are enough to run out.
    How it knows:
        It follows the values of one pass in order, through local functions. Values that come from the model or
        feed `backward()` have a graph. `.item()`, `.detach()`, `float()`, numpy and comparisons cut it. In a
        recording the memory's growth confirms or refutes it. If the source shows nothing, a container that
        gains a tensor with its graph in each step is enough. The memory must grow significantly.
    False alarms:
        Sums that are reset in the same pass or every N steps are not findings. Neither are lists that are
        cleared or feed a `backward()`. Neither are bounded deques and evaluation loops. A helper from another
        package may cut the graph.
    Remedies:
        Keep `loss.detach()`: the number without the graph. Unlike `.item()`, it does not make the host wait.
    References:
        - https://docs.pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory
        - https://github.com/pdearena/pdearena/pull/4
    """

    code = Code("MEM003")
    name = "graph-retained"
    traits = frozenset({Trait.DEVICE_MEMORY_GROWS, Trait.HOST_MEMORY_GROWS})
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    severity = Severity.WARNING
    thresholds = (
        Threshold(
            name="grown",
            default=64 * 2**20,
            unit="B",
            source="fragmentation makes a healthy process grow by tens of MiB",
            meaning="Growth by this much over a recorded run turns the source's suspicion into an error.",
        ),
        Threshold(
            name="per_step",
            default=1024,
            unit="B",
            source="a graph of two nodes; sums and lists of numbers grow by 8 to 32 bytes a step",
            meaning="Less growth per step in a recorded run refutes the source's suspicion.",
        ),
        Threshold(
            name="steps",
            default=200,
            unit="{steps}",
            source="convention: growth that 200 steps do not show is not worth an edit",
            meaning="A recorded run of this many steps without growth refutes the source's suspicion.",
        ),
        Threshold(
            name="gained",
            default=0.9,
            unit="1",
            source="lists emptied at episode ends gain half an element a step where episodes grow (measured)",
            meaning="A container that grows by fewer elements per step is not a finding by itself.",
        ),
        Threshold(
            name="day",
            default=86400,
            unit="s",
            source="convention: out of memory within the run or a day is an error",
            meaning="If the machine is full within this time, a growing container is an error.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = judged(patient)
        if run is None:
            yield from self._from_source(patient.source)
            return
        source = source_of(patient)
        suspected = list(self._from_source(source)) if source is not None else []
        yield from self._measured(run, suspected) if suspected else self._seen(patient, run, source)

    def _seen(self, patient: Patient, run: Run, source: Source | None) -> Iterator[Finding]:
        """What the recorder saw grow, where the source shows nothing: a container of tensors with graphs."""
        process = run.lead.process
        column = _column(process)
        things = (*growing_things(process, "cuda"), *growing_things(process, "cpu"))
        kept = [item for item in things if item.name and item.has_graph]
        thing = next((item for item in kept if item.count >= self.limit("gained") * item.steps), None)
        found = rise(process, column)
        if thing is None or found is None or not may_grow(process, column):
            return
        if found.per_step < self.limit("per_step") or (source is not None and _emptied(source, thing.name)):
            return
        limit = memory_limit(run.recording) if column == "rss" else None
        soon = limit is not None and found.seconds_to(limit) <= self.limit("day")
        yield self._grew(
            run,
            found,
            say(
                "{holder} grows with the steps and keeps tensors with their autograd graphs: {objects}.",
                holder=thing.name,
                objects=thing.words,
            ),
            much=soon or found.bytes >= self.limit("grown"),
            spans=spots(patient, thing.place),
            detail=GraphRetainedDetail(target=thing.name),
        )

    def _measured(self, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        """The memory that really grew; the suspicion says why."""
        process = run.lead.process
        found = rise(process, _column(process))
        if found is None:
            yield from suspected
            return
        if found.per_step < self.limit("per_step"):
            if run.lead.steps < self.limit("steps"):
                yield from suspected
            return
        much = found.bytes >= self.limit("grown")
        for finding in suspected:
            yield self._grew(run, found, finding.message, much=much, suspected=[finding])

    def _grew(
        self,
        run: Run,
        found: MemoryGrowth,
        message: str,
        *,
        much: bool,
        suspected: Sequence[Finding] = (),
        spans: Sequence[SourceSpan] = (),
        detail: GraphRetainedDetail | None = None,
    ) -> Finding:
        """The finding with the memory that grew; `much`: it is an error."""
        on_device = _column(run.lead.process) == "allocated"
        grew = (
            template("{message} The device's memory grew by {bytes} in {steps} steps, {per_step} a step.")
            if on_device
            else template("{message} The host's memory grew by {bytes} in {steps} steps, {per_step} a step.")
        )
        full = say("the device runs out of memory") if on_device else say("the host runs out of memory")
        usual = suspected[0].severity if suspected else self.severity
        return confirmed(
            self,
            suspected,
            say(grew, message=message, bytes=size(found.bytes), steps=found.steps, per_step=size(found.per_step)),
            evidence=(*spans, run.measured("bytes_per_step", found.per_step, "B")),
            severity=Severity.ERROR if much else usual,
            cost=Cost(breaks=full if much else None),
            detail=detail,
        )

    def _from_source(self, source: Source) -> Iterator[Finding]:
        said: set[ast.AST] = set()
        for _, loop in source.training_loops:
            if not _steps(loop):
                continue
            for sink in _sinks(source, loop):
                if sink.event.node not in said:
                    said.add(sink.event.node)
                    yield self._found(loop, sink)

    def _found(self, loop: Loop, sink: _Sink) -> Finding:
        span = sink.event.span
        value = ast.unparse(sink.value)
        verb = {"sum": say("adds up"), "list": say("keeps"), "entry": say("keeps")}[sink.how]
        evidence: tuple[Evidence, ...] = (
            span,
            *sink.event.via,
            Measurement(
                name="kept_value",
                value=value,
                unit="",
                provenance=Provenance.DECLARED,
                reproduce=f"sed -n '{loop.span.line},{loop.end_line}p' {loop.span.path}",
            ),
        )
        return self.finding(
            say(
                "{target} {verb} {value} with its autograd graph on each training step; "
                "the loop at line {line} never resets it.",
                target=sink.target,
                verb=verb,
                value=value,
                line=loop.span.line,
            ),
            evidence=evidence,
            confidence=Confidence.SUSPECTED,
            subject=f"{span.path}:{span.line}",
            detail=GraphRetainedDetail(target=sink.target, value=value),
        )


def _column(process: Process) -> str:
    """The bytes that tell: the device's where it was used, else the host's."""
    return "allocated" if readings(process, "allocated") > 0 else "rss"


def _steps(loop: Loop) -> bool:
    """Whether the loop updates the weights: else it goes through the micro-batches of one step."""
    return loop.engine is not None or any(event.call and "step" in event.call.method for event in loop.events)


def _sinks(source: Source, loop: Loop) -> list[_Sink]:
    if not any(_candidate(sink) for event in loop.events for sink in _kept(event, loop)):
        return []
    flow = GraphFlow(source, loop)
    one = StepOrder(source, loop)
    backwards = [moment.event for moment in one.of(Kind.BACKWARD)]
    found: list[_Sink] = []
    for event in flow.walk():
        # The other arm of `if train: loss.backward()` belongs to an evaluation.
        if backwards and not any(one.meet(event, backward) for backward in backwards):
            continue
        if steady(event) and not any(_unsure(guard.kind, guard.value) for guard in event.guards):
            found += (
                sink
                for sink in _kept(event, loop)
                if flow.carries(sink.value, event) and not (_local(source, sink) or _spent(source, flow, sink))
            )
    return found


def _local(source: Source, sink: _Sink) -> bool:
    """Whether a function that the loop calls binds a name of its own, which ends with the call."""
    node = sink.event.node
    if not sink.event.via or not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
        return False
    script = next((item for item in source.scripts if item.path == sink.event.span.path), None)
    function = function_of(script, node) if script is not None else None
    return function is not None and not any(
        isinstance(item, ast.Global | ast.Nonlocal) and sink.target in item.names for item in ast.walk(function)
    )


def _candidate(sink: _Sink) -> bool:
    """Whether a value may be a tensor at all: most sums are counters."""
    return not isinstance(sink.value, ast.Constant | ast.JoinedStr)


def _unsure(kind: GuardKind, value: object) -> bool:
    return kind is GuardKind.SWITCH and not isinstance(value, Known)


def _kept(event: Event, loop: Loop) -> Iterator[_Sink]:
    """What a statement puts where it outlives the pass."""
    node = event.node
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub) and not event.no_grad:
        how = "list" if isinstance(node.value, ast.List | ast.Tuple) else "sum"
        yield _Sink(event, ast.unparse(node.target), how, node.value)
    elif isinstance(node, ast.Assign) and len(node.targets) == 1:
        target = node.targets[0]
        name = ast.unparse(target)
        if not event.no_grad and _adds_to(node.value, name):
            yield _Sink(event, name, "sum", node.value)
        elif not event.no_grad and _joins(node.value, name):
            yield _Sink(event, name, "list", node.value)
        elif isinstance(target, ast.Subscript) and not event.no_grad and _varies(target.slice, loop, event):
            yield _Sink(event, ast.unparse(target.value), "entry", node.value)
    elif isinstance(node, ast.Call) and node.args and event.call is not None and _keeps(event.call):
        yield _Sink(event, event.call.receiver, "list", node.args[-1])


def _keeps(call: Call) -> bool:
    if call.method not in KEEPS or call.receiver in {"", "self"} or call.node.keywords:
        return False  # a container takes its element alone: `meter.append(loss, count=8)` is a meter's
    if len(call.node.args) != (2 if call.method == "insert" else 1):
        return False
    owner = call.name.rpartition(".")[0]
    return "." not in owner or owner.startswith(("collections.", "queue."))  # else a library's own class


def _adds_to(value: ast.expr, name: str) -> bool:
    """Whether an expression is a sum that name is a term of: `total + loss`, `0.9 * ema + 0.1 * loss`."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Sub):
        sides = (value.left, value.right)
        return any(_scaled(side, name) or _adds_to(side, name) for side in sides)
    return False


def _joins(value: ast.expr, name: str) -> bool:
    """Whether a name grows by concatenation: `kept = torch.cat([kept, out])`."""
    if not isinstance(value, ast.Call) or not value.args or not isinstance(value.args[0], ast.List | ast.Tuple):
        return False
    joined = ast.unparse(value.func).rsplit(".", 1)[-1] in {"cat", "concat", "concatenate", "vstack", "hstack"}
    return joined and any(ast.unparse(item) == name for item in value.args[0].elts)


def _scaled(node: ast.expr, name: str) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        return _scaled(node.left, name) or _scaled(node.right, name)
    return ast.unparse(node) == name


def _varies(index: ast.expr, loop: Loop, event: Event) -> bool:
    """Whether an index differs from pass to pass; a constant key is overwritten each time."""
    counted = {ast.unparse(item.node.target) for item in loop.events if isinstance(item.node, ast.AugAssign)} | set(
        loop.targets
    )
    names = {part.id for part in ast.walk(index) if isinstance(part, ast.Name)}
    return bool(names & counted) and not event.via


def _spent(source: Source, flow: GraphFlow, sink: _Sink) -> bool:
    """Whether the target is reset, emptied, bounded or fed into a backward."""
    key = flow.key(sink.target, sink.event.via)
    owners = _owners(key[1])
    if any((key[0], owner) in flow.upstream for owner in owners if owner != "self"):
        return True
    for event in flow.loop.events:
        if event.node is sink.event.node or any(guard.kind is GuardKind.ONCE for guard in event.guards):
            continue
        if any(flow.key(name, event.via) in {(key[0], owner) for owner in owners} for name in _resets(event)):
            return True
    return _bounded(source, sink.target) or _of_integers(source, sink.target)


def _owners(text: str) -> set[str]:
    """`stats['loss']` and what it is part of: `stats`."""
    found = {text}
    node: ast.expr = ast.parse(text, mode="eval").body
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
        found.add(ast.unparse(node))
    return found


def _resets(event: Event) -> Iterator[str]:
    """Names that an event binds anew or empties."""
    node = event.node
    if isinstance(node, ast.Assign):
        for target in node.targets:
            for part in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                name = ast.unparse(part)
                if not _adds_to(node.value, name) and not _joins(node.value, name):
                    yield ast.unparse(_without_slice(part))
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        yield ast.unparse(node.target)
    elif isinstance(node, ast.Delete):
        for target in node.targets:
            yield ast.unparse(target.value) if isinstance(target, ast.Subscript) else ast.unparse(target)
    elif event.call is not None and event.call.method in EMPTIES and event.call.receiver:
        yield event.call.receiver


def _without_slice(node: ast.expr) -> ast.expr:
    """`losses` for `losses[:]`."""
    return node.value if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) else node


def _emptied(source: Source, target: str) -> bool:
    """Whether some training loop empties what goes by this name, or binds it anew."""
    last = target.rpartition(".")[2]
    return _bounded(source, target) or any(
        name.rpartition(".")[2] == last
        for _, loop in source.training_loops
        for event in loop.events
        for name in _resets(event)
    )


def _bounded(source: Source, target: str) -> bool:
    """Whether the container is a deque with a maximal length, wherever it is made."""
    made = _made_by(source, target, ".deque")
    return any("maxlen" in call.keywords or len(call.positional) > 1 for call in made)


def _of_integers(source: Source, target: str) -> bool:
    """Whether a sum begins as a tensor of integers: those have no gradient."""
    made = _made_by(source, target, "torch.zeros", "torch.tensor", "torch.full", "torch.ones")
    return any(is_attribute(keyword_value(call.node, "dtype"), *INTEGERS) for call in made)


def _made_by(source: Source, target: str, *names: str) -> Iterator[Call]:
    """Calls of one of these names whose result is bound to the last name of a target, in any script."""
    last = target.rsplit(".", 1)[-1]
    for script in source.scripts:
        for call in script.calls_to(*names):
            if bound_to(script, call.node).rsplit(".", 1)[-1] == last:
                yield call
