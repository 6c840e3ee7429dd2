"""MEM003: losses or outputs are kept with their autograd graph from step to step."""

import ast
from collections.abc import Iterator, Sequence

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import Run, judged, source_of, spots
from gpudoctor.analysis.source.control_flow import bound_to, steady
from gpudoctor.analysis.source.syntax import names_in
from gpudoctor.lang import say, template
from gpudoctor.model import Check, Cost, Finding, Patient, Reads, Severity, Threshold, Trait
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.proof import LeakDetail, LeakKind
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Event, Loop, Source
from gpudoctor.text import size

KEEPS = {"append", "appendleft", "extend", "add", "insert"}
"""Methods that put a value into a container."""

EMPTIES = {"clear", "pop", "popleft", "popitem", "reset"}
"""Methods that take values out again."""


@frozen
class GraphRetainedDetail(LeakDetail):
    """What is kept, and where it stands."""

    kind: LeakKind = LeakKind.GRAPHS
    value: str = ""
    """The expression; "" where the recorder saw only the container."""


class GraphRetained(Check):
    """Losses or outputs are kept with their autograd graph from step to step.

    What it finds:
        `total += loss`, `total = total + loss` or `losses.append(loss)` in a training loop, of the loss that
        runs `backward()`. The value still has its graph, and the sum or container lives longer than the step.
    Why it hurts:
        The kept tensor keeps its graph. After `backward()` the saved activations of that graph are gone, but
        its nodes and the tensor stay. Host and GPU memory grow until the epoch ends or the process dies. A
        value without any `backward()` keeps all activations of its step alive: a few steps are enough to run
        out.
    How it knows:
        It reads what one pass of the loop executes. A call (`.item()`, `.detach()`, `float()`) may cut the graph.
        In a recording the memory's growth confirms or refutes it. If the source shows nothing, a container that
        gains a tensor with its graph in each step is enough. The memory must grow significantly.
    False alarms:
        Sums that are reset in the same pass or every N steps are not findings. Neither are lists that are
        cleared or feed a `backward()`. Neither are bounded deques and evaluation loops.
    Remedies:
        Keep `loss.detach()`: the number without the graph. Unlike `.item()`, it does not make the host wait.
    References:
        - https://docs.pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory
    """

    code = "MEM003"
    traits = frozenset({Trait.DEVICE_MEMORY_GROWS, Trait.HOST_MEMORY_GROWS})
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    thresholds = (
        Threshold(
            "grown",
            64 * 2**20,
            "B",
            "fragmentation makes a healthy process grow by tens of MiB",
            "Growth by this much over a recorded run turns the source's suspicion into an error.",
        ),
        Threshold(
            "per_step",
            1024,
            "B",
            "a graph of two nodes; sums and lists of numbers grow by 8 to 32 bytes a step",
            "Less growth per step in a recorded run refutes the source's suspicion.",
        ),
        Threshold(
            "gained",
            0.9,
            "1",
            "lists emptied at episode ends gain half an element a step where episodes grow (measured)",
            "A container that grows by fewer elements per step is not a finding by itself.",
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
        things = (*of_run.growing_things(process, "cuda"), *of_run.growing_things(process, "cpu"))
        kept = [item for item in things if item.name and item.has_graph]
        thing = next((item for item in kept if item.count >= self.limit("gained") * item.steps), None)
        found = of_run.rise(process, column)
        if thing is None or found is None or not of_run.may_grow(process, column):
            return
        if found.per_step < self.limit("per_step") or (source is not None and _emptied(source, thing.name)):
            return
        yield self._grew(
            run,
            found,
            say(
                "{holder} grows with the steps and keeps tensors with their autograd graphs: {objects}.",
                holder=thing.name,
                objects=thing.words,
            ),
            spans=spots(patient, thing.place),
            detail=GraphRetainedDetail(target=thing.name),
        )

    def _measured(self, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        """The memory that really grew; the suspicion says why."""
        found = of_run.rise(run.lead.process, _column(run.lead.process))
        if found is None:
            yield from suspected
        elif found.per_step >= self.limit("per_step"):
            yield from (self._grew(run, found, item.message, suspected=[item]) for item in suspected)

    def _grew(
        self,
        run: Run,
        found: "of_run.MemoryGrowth",
        message: str,
        *,
        suspected: Sequence[Finding] = (),
        spans: Sequence[SourceSpan] = (),
        detail: GraphRetainedDetail | None = None,
    ) -> Finding:
        """The finding with the memory that grew."""
        on_device, much = _column(run.lead.process) == "allocated", found.bytes >= self.limit("grown")
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
        """`total += loss` and `losses.append(loss)` with a graph, where no pass empties or uses up the target."""
        said: set[ast.AST] = set()
        for _, loop in source.training_loops:
            if loop.engine is None and not any(event.call and "step" in event.call.method for event in loop.events):
                continue  # the micro-batches of one step
            losses = _losses(loop)
            spent = losses.union(*map(_resets, loop.events))
            for event in loop.events:
                target, value = _kept(event)
                if value is None or event.node in said or not steady(event) or _bounded(source, target):
                    continue
                if event.via or event.no_grad or not _is_loss(event, value, losses):
                    continue
                if not any(target == name or target.startswith((f"{name}.", f"{name}[")) for name in spent):
                    said.add(event.node)
                    yield self._found(loop, event, target, ast.unparse(value))

    def _found(self, loop: Loop, event: Event, target: str, value: str) -> Finding:
        span = event.span
        verb = say("keeps") if isinstance(event.node, ast.Call) else say("adds up")
        return self.finding(
            say(
                "{target} {verb} {value} with its autograd graph on each training step; "
                "the loop at line {line} never resets it.",
                target=target,
                verb=verb,
                value=value,
                line=loop.span.line,
            ),
            evidence=(span, *event.via),
            detail=GraphRetainedDetail(target=target, value=value),
        )


def _losses(loop: Loop) -> set[str]:
    """Names of the losses of a pass; none that it detaches, `loss = loss.detach()`."""
    ends = [event.node for event in loop.calls(".backward")]
    ends += [event.node for event in loop.events if loop.engine and isinstance(event.node, ast.Return)]
    detached = [event.node for event in loop.events if isinstance(event.node, ast.Assign)]
    found = set().union(*map(names_in, ends))
    return found.difference(*(names_in(node.targets[0]) for node in detached if "detach" in ast.unparse(node.value)))


def _is_loss(event: Event, value: ast.expr, losses: set[str]) -> bool:
    """Whether a value is a loss, or a sum or product with one: no call, which may cut the graph off."""
    parts = [part for part in ast.walk(value) if isinstance(part, ast.expr)]
    held = [part for part in parts if isinstance(part, ast.Name) and part.id in losses]
    plain = all(isinstance(part, ast.Name | ast.Constant | ast.BinOp) for part in parts)
    return plain and any(event.thing(name).type == "torch.Tensor" for name in held)


def _column(process: "of_run.Process") -> str:
    """The bytes that tell: the device's where it was used, else the host's."""
    return "allocated" if of_run.memory_readings(process, "allocated") > 0 else "rss"


def _kept(event: Event) -> tuple[str, ast.expr | None]:
    """The sum or container that outlives a pass, and what a statement puts into it; no value for other events."""
    node, call = event.node, event.call
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub):
        return ast.unparse(node.target), node.value
    if isinstance(node, ast.Assign) and not event.via:
        target = ast.unparse(node.targets[0])
        return target, node.value if _grows(node.value, target) else None
    if isinstance(node, ast.Call) and call is not None and call.method in KEEPS and len(node.args) == 1:
        return call.receiver, None if node.keywords or call.receiver in {"", "self"} else node.args[0]
    return "", None


def _grows(value: ast.expr, name: str) -> bool:
    """Whether an expression adds to a name: `0.9 * ema + loss`."""
    sums = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Sub)
    return sums and any(
        ast.unparse(part) == name for part in ast.walk(value) if isinstance(part, ast.Name | ast.Attribute)
    )


def _resets(event: Event) -> Iterator[str]:
    """Names that an event binds anew or empties."""
    node = event.node
    if isinstance(node, ast.Assign):
        for target in node.targets:
            for part in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                name = ast.unparse(part)
                if not _grows(node.value, name):
                    yield name.removesuffix("[:]")
    elif event.call is not None and event.call.method in EMPTIES and event.call.receiver:
        yield event.call.receiver


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
    last = target.rsplit(".", 1)[-1]
    return any(
        "maxlen" in call.keywords or len(call.positional) > 1
        for script in source.scripts
        for call in script.calls_to(".deque")
        if bound_to(script, call.node).rsplit(".", 1)[-1] == last
    )
