"""LOOP001: gradients are never cleared between optimizer steps."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from gpudoctor.analysis.observation import confirmed, suspicions
from gpudoctor.analysis.run.curves import numerics
from gpudoctor.analysis.run.line_costs import place_of
from gpudoctor.analysis.run.steady_run import judged, spots
from gpudoctor.analysis.source.batch_classes import joins_unread
from gpudoctor.analysis.source.checkpoints import saves_of
from gpudoctor.analysis.source.control_flow import enclosing, loop_node
from gpudoctor.analysis.source.loaders import Loader, loaders
from gpudoctor.analysis.source.optimizers import assignments_to
from gpudoctor.analysis.source.step_order import CLEARS, ENGINES, Kind, StepOrder, names_optimizer
from gpudoctor.analysis.source.syntax import FunctionNode, is_attribute, is_method_call, last_name, nodes, parents
from gpudoctor.analysis.source.syntax_places import line_at
from gpudoctor.lang import say
from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Cost,
    Detail,
    Evidence,
    Finding,
    Measurement,
    Patient,
    Provenance,
    Reads,
    Severity,
    Threshold,
)
from gpudoctor.model.signs.source import Event, GuardKind, Loop, Script, Source

OURS = ("torch.", "torch_optimizer.", "transformers.", "bitsandbytes.", "timm.", "lion_pytorch.", "adabelief_pytorch.")
"""Packages whose functions do not clear the gradients of an optimizer that they are given."""


_SPEED = re.compile(r"^tests?_|(^|_)(bench\w*|profil\w*|speed|timing|latency|throughput|time_it)(_|$)")
"""Functions that repeat a step to measure it."""

_MEASURES = frozenset(
    {
        "time.time",
        "time.perf_counter",
        "time.monotonic",
        "time.process_time",
        "time.perf_counter_ns",
        "timeit.default_timer",
        "torch.cuda.Event",
        "torch.cuda.max_memory_allocated",
    }
)
"""Calls that read a clock or the memory."""

_DRAWS = frozenset(
    {"torch.rand", "torch.randn", "torch.randint", "torch.rand_like", "torch.randn_like", "torch.randint_like"}
)

_GRAPHS = ("torch_geometric.", "dgl.")
"""Packages of graphs: a loader of one big graph gives one batch."""

_MOVES = frozenset({"to", "cuda", "cpu", "float", "long", "half"})
"""Methods that leave random numbers random."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroGradMissingDetail(Detail):
    """What the rule reads."""

    optimizer: str | None = None
    """Its name; None where only a run was looked at."""


class ZeroGradMissing(Check):
    """Gradients are never cleared between optimizer steps.

    What it finds:
        - A training loop with `backward()` and `optimizer.step()` on each pass that never clears the gradients.
          It has no `zero_grad` of the optimizer or model, and no `p.grad = None`.
        - Or that clears them only before the loop, once an epoch.

        In loops with several optimizers, the one that is left out.
    Why it hurts:
        `backward()` adds to `.grad`. Without clearing, each update uses the sum of the gradients of all steps
        so far. It grows with the run, and the loss plateaus or diverges. No error is raised.
    How it knows:
        It reads what one pass of the loop executes, through local functions and closures. It needs a backward,
        a step and nothing that clears.
    False alarms:
        Gradient accumulation (cleared where the optimizer steps) is not a finding. Engines and wrappers that
        clear by themselves (DeepSpeed, Lightning, HF Trainer) are not reported. Neither is a loop that passes
        its optimizer to a function that gpudoctor could not read. A loop over a range in a function that
        measures speed or memory is a note. So is one that reads a clock or the memory and draws its targets at
        random. Its model is discarded. A clear right before the loop is a note if a graph loader or collate
        function may yield all data. It is not a finding if the batch is the whole data set. Parameters and
        optimizers that each pass creates again have no old gradients.
    Remedies:
        Call `optimizer.zero_grad()` right after each `optimizer.step()`.
    References:
        - https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html
        - https://docs.pytorch.org/tutorials/recipes/recipes/zeroing_out_gradients.html
    """

    code = Code("LOOP001")
    name = "zero-grad-missing"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    severity = Severity.ERROR
    thresholds = (
        Threshold(
            name="cycles",
            default=20,
            unit="{steps}",
            source="convention: correctness counts in events; two accumulations of eight and a rest",
            meaning="Fewer examined optimizer steps in a recording are not judged.",
        ),
        Threshold(
            name="uncleared_share",
            default=0.8,
            unit="1",
            source="convention: a loop that clears now and then accumulates on purpose",
            meaning="This share of the cycles must begin with used gradients.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = judged(patient, 1)
        suspected = suspicions(lambda: self._from_source(patient.source), run)
        process = run.lead.process if run else None
        readings = numerics(process, "uncleared") if process else ()
        looked = int(readings[-1].get("steps") or 0) if readings else 0
        if run is None or looked < self.limit("cycles"):
            yield from suspected
            return
        found = int(readings[-1].get("found") or 0)
        if found < self.limit("uncleared_share") * looked:
            return
        where = place_of(readings[-1])
        spans = spots(patient, where)
        yield confirmed(
            self,
            suspected,
            say(
                "In {found} of {looked} steps the first backward pass found the gradients that the "
                "last optimizer "
                "step had used. The program never clears them, and each step uses the sum of all earlier ones.",
                found=found,
                looked=looked,
            ),
            evidence=(*spans, run.measured("uncleared_cycles", found, "{steps}")),
            severity=Severity.ERROR,
            cost=Cost(breaks=say("each update uses the sum of all gradients so far")),
            detail=ZeroGradMissingDetail(),
        )

    def _from_source(self, source: Source) -> Iterator[Finding]:
        said: set[ast.AST] = set()
        local = frozenset().union(*(_functions_that_clear(script) for script in source.scripts))
        for script, loop in source.training_loops:
            if loop.engine is not None:
                continue
            steps = {name: step for name, step in _steps(source, loop) if not _made_anew(loop, name, step)}
            if not steps or not _backwards(loop) or _hidden(local, loop):
                continue
            for name, step in _uncleared(loop, steps).items():
                batches = _batches(source, script, loop)
                if step.node not in said and batches is not _Batches.ONE:
                    said.add(step.node)
                    unsure = batches is _Batches.PERHAPS_ONE
                    yield self._found(source, script, loop, name, step, perhaps_one=unsure)

    def _found(
        self, source: Source, script: Script, loop: Loop, name: str, step: Event, *, perhaps_one: bool
    ) -> Finding:
        evidence: tuple[Evidence, ...] = (
            step.span,
            *step.via,
            Measurement(
                name="clearing_calls_in_loop",
                value=0,
                unit="{call}",
                provenance=Provenance.DECLARED,
                reproduce=f"sed -n '{loop.span.line},{loop.end_line}p' {loop.span.path} | grep -n 'grad'",
            ),
        )
        broken = Cost(
            breaks=say("each update adds the gradients of all earlier steps, so training goes wrong silently")
        )
        harmless = perhaps_one or _measures_speed(loop) or _measures_on_noise(source, script, loop)
        where = line_at(loop.span, step.span)
        message = (
            say(
                "Gradients are cleared once before the loop at {where}, and {name} steps in each pass. "
                "That is right only if the data set is one batch.",
                where=where,
                name=name,
            )
            if perhaps_one
            else say(
                "{name} steps on gradients that are never cleared: the loop at {where} "
                "calls backward() and step(), but never clears them.",
                name=name,
                where=where,
            )
        )
        return self.finding(
            message,
            evidence=evidence,
            confidence=Confidence.SUSPECTED,
            severity=Severity.NOTE if harmless else Severity.ERROR,
            cost=None if harmless else broken,
            subject=f"{step.span.path}:{step.span.line}",
            detail=ZeroGradMissingDetail(optimizer=name),
        )


class _Batches(Enum):
    """How many batches a loop goes over whose gradients are cleared right before it."""

    MANY = "many"
    PERHAPS_ONE = "perhaps one"
    ONE = "one"


def _batches(source: Source, script: Script, loop: Loop) -> _Batches:
    """Whether the clear before a loop is a clear before its only batch.

    A graph, or whatever an unread collate function joins, is often the whole data in one batch.
    """
    if not _cleared_before(script, loop):
        return _Batches.MANY
    mine = [item for item in loaders(source) if any(own is loop for _, own in item.loops)]
    if mine and all(_whole_data(item) for item in mine):
        return _Batches.ONE
    if mine and all(item.call.name.startswith(_GRAPHS) or joins_unread(source, item) for item in mine):
        return _Batches.PERHAPS_ONE
    return _Batches.MANY


def _whole_data(loader: Loader) -> bool:
    """Whether a loader's batch is as long as its dataset: `batch_size=len(data)`."""
    dataset = loader.dataset
    return dataset is not None and loader.chosen("batch_size") == f"len({ast.unparse(dataset)})"


def _cleared_before(script: Script, loop: Loop) -> bool:
    """Whether the statements right before a loop, in its own block, clear gradients."""
    node: ast.AST | None = loop_node(script, loop)
    if node is None:
        return False
    above = parents(script)[node]
    while isinstance(above, ast.With | ast.Try):
        node, above = above, parents(script)[above]
    for field in ("body", "orelse", "finalbody"):
        block = getattr(above, field, [])
        if node in block:
            return any(
                isinstance(part, ast.Attribute) and CLEARS.search(part.attr)
                for statement in block[: block.index(node)]
                if not isinstance(statement, ast.For | ast.While | ast.FunctionDef | ast.ClassDef)
                for part in ast.walk(statement)
            )
    return False


def _made_anew(loop: Loop, name: str, step: Event) -> bool:
    """Whether each pass makes an optimizer and all that it is given: new parameters hold no old gradients."""
    made = {
        ast.unparse(target): event.node.value
        for event in loop.events
        if isinstance(event.node, ast.Assign) and event.every_pass and event.via == step.via
        for target in event.node.targets
    }
    optimizer = made.get(name)
    if not isinstance(optimizer, ast.Call) or not optimizer.args:
        return False
    given = _owners(optimizer.args[0])
    return bool(given) and all(isinstance(made.get(owner), ast.Call) for owner in given)


def _owners(given: ast.expr) -> set[str]:
    """Whose parameters an optimizer gets: `net` of `net.parameters()`, `z` of `[z]`."""
    if isinstance(given, ast.List | ast.Tuple):
        return set().union(*(_owners(item) for item in given.elts))
    if is_method_call(given, "parameters"):
        return {ast.unparse(given.func.value)}
    return {ast.unparse(given)}


def _measures_speed(loop: Loop) -> bool:
    """Whether a loop repeats one step for its duration or its memory: nothing that it trains is kept."""
    counts = loop.iterates.startswith(("range(", "trange(", "tqdm(range("))
    return counts and bool(_SPEED.search(loop.function.rpartition(".")[2]))


def _measures_on_noise(source: Source, script: Script, loop: Loop) -> bool:
    """Whether a loop reads a clock or the memory while it fits targets that each pass draws anew.

    Nothing can be learnt from them. Noise that a pass uses twice is what a model of diffusion learns to find,
    and weights that are saved or evaluated are kept.
    """
    node = loop_node(script, loop)
    if node is None or not any(event.call is not None and event.call.name in _MEASURES for event in loop.events):
        return False
    evaluated = any(call.method == "eval" and call.span.line > loop.end_line for call in script.calls)
    if evaluated or any(saves_of(other) for other in source.scripts):
        return False
    drawn = {event.node for event in loop.events if event.call is not None and event.call.name in _DRAWS}
    read = [part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)]
    names = {event.node: event.call.name for event in loop.events if event.call is not None}
    # Only of torch's own losses is the second argument known to be the target: points drawn at random for a
    # loss of the program's own may be what it learns from.
    given = [
        argument.id
        for event in _backwards(loop)
        if event.call is not None
        for _, loss in assignments_to(node, event.call.receiver)
        if isinstance(loss, ast.Call) and names.get(loss, "").startswith("torch.nn.")
        for argument in (*loss.args[1:2], *(item.value for item in loss.keywords if item.arg == "target"))
        if isinstance(argument, ast.Name)
    ]
    return any(
        read.count(name) == 1 and any(_drawn(value) in drawn for _, value in assignments_to(node, name))
        for name in given
    )


def _drawn(value: ast.expr) -> ast.expr:
    """`torch.rand(8)` of `torch.rand(8).to(device)`."""
    while is_method_call(value, *_MOVES):
        value = value.func.value
    return value


def _backwards(loop: Loop) -> list[Event]:
    return [event for event in loop.calls(".backward") if not event.evaluation and not _create_graph(event)]


def _create_graph(event: Event) -> bool:
    """A backward for a penalty on gradients, not for an update."""
    return event.call is not None and event.call.name == "torch.autograd.backward" and bool(event.call.keywords)


def _steps(source: Source, loop: Loop) -> Iterator[tuple[str, Event]]:
    """Optimizers, by their expression, with the first event that steps them; a closure clears for itself."""
    found: dict[str, Event] = {}
    for item in StepOrder(source, loop).of(Kind.STEP):
        if item.scaler or not (item.node.args or item.node.keywords):
            found.setdefault(item.subject, item.event)
    yield from found.items()


def _uncleared(loop: Loop, steps: dict[str, Event]) -> dict[str, Event]:
    """The optimizers that nothing clears, with their step."""
    clears = [event for event in loop.events if _clears(event) and not _only_once(event, steps)]
    if not clears:
        return steps
    if len(steps) < 2:
        return {}
    cleared = {event.call.receiver for event in clears if event.call is not None and event.call.receiver}
    if len(cleared) < len(clears) or not cleared <= set(steps):
        return {}  # by the model, a parameter, a list: whose gradients they are cannot be told
    return {name: step for name, step in steps.items() if name not in cleared and not _shares(name, steps)}


def _shares(name: str, steps: dict[str, Event]) -> bool:
    """Whether a name stands for any of the optimizers: `optimizers[i]`, `opt` in a loop over them."""
    return "[" in name or any(name in loop.targets for loop in steps[name].inner)


def _only_once(event: Event, steps: dict[str, Event]) -> bool:
    """Whether gradients are cleared on one pass only, while the optimizer steps on all."""
    once = any(guard.kind is GuardKind.ONCE for guard in event.guards)
    return once and all(step.guards != event.guards for step in steps.values())


def _clears(event: Event) -> bool:
    node = event.node
    if event.call is not None:
        return bool(CLEARS.search(event.call.method)) or (
            event.call.method in {"zero_", "fill_"} and "grad" in event.call.receiver
        )
    if isinstance(node, ast.Assign):
        return any(is_attribute(target, "grad") for target in node.targets)
    return isinstance(node, ast.Delete) and any(is_attribute(target, "grad") for target in node.targets)


def _hidden(local: frozenset[str], loop: Loop) -> bool:
    """Whether gradients may be cleared where the reader did not follow; `local` names functions that clear."""
    followed = {site for event in loop.events for site in event.via}
    for event in loop.events:
        call = event.call
        if call is None or not isinstance(event.node, ast.Call):
            continue
        if call.name.startswith(ENGINES):
            return True
        given = [*event.node.args, *(keyword.value for keyword in event.node.keywords)]
        if any(last_name(part) in local for part in given):
            return True  # a closure
        unread = event.span not in followed and not call.name.startswith(OURS) and call.method != "step"
        if call.method in local and event.span not in followed:
            return True
        if unread and any(names_optimizer(part) for part in given):
            return True
        if call.method in {"step", "backward"} and _engine_like(call.receiver):
            return True
    return False


def _functions_that_clear(script: Script) -> frozenset[str]:
    """Names of the script's functions in which gradients are cleared, nested ones included."""
    return frozenset(
        above.name
        for node in nodes(script, ast.Attribute)
        if node.attr == "grad" or CLEARS.search(node.attr)
        for above in enclosing(script, node)
        if isinstance(above, FunctionNode)
    )


def _engine_like(receiver: str) -> bool:
    last = receiver.rsplit(".", 1)[-1].lower()
    return last.endswith("engine") or last in {"booster", "optim_wrapper", "optimizer_wrapper"}
