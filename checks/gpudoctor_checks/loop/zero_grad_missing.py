"""LOOP001: gradients are never cleared between optimizer steps."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.analysis.observation import confirmed, suspicions
from gpudoctor.analysis.run.curves import numerics
from gpudoctor.analysis.run.line_costs import place_of
from gpudoctor.analysis.run.steady_run import judged, spots
from gpudoctor.analysis.source.control_flow import enclosing
from gpudoctor.analysis.source.step_order import CLEARS, Kind, StepOrder
from gpudoctor.analysis.source.syntax import FunctionNode, is_attribute, last_name, nodes
from gpudoctor.analysis.source.syntax_places import line_at
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Cost, Detail, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.signs.source import Event, GuardKind, Loop, Script, Source


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
        its optimizer to a function that gpudoctor could not read. Some harmless loops may be reported. Examples
        are a speed measurement, a single batch, and parameters that each pass creates again.
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
        clearing = frozenset().union(*map(_functions_that_clear, source.scripts))
        for _, loop in source.training_loops:
            order = StepOrder(source, loop)
            steps = {item.subject: item.event for item in reversed(order.of(Kind.STEP))}
            if loop.engine is not None or order.opaque or order.closures or not order.of(Kind.BACKWARD):
                continue
            if any(call.call is not None and clearing & _mentioned(call.call.node) for call in loop.calls()):
                continue  # a function that clears, or a closure
            for name, step in _uncleared(loop, steps).items():
                if step.node not in said:
                    said.add(step.node)
                    yield self._found(loop, name, step)

    def _found(self, loop: Loop, name: str, step: Event) -> Finding:
        return self.finding(
            say(
                "{name} steps on gradients that are never cleared: the loop at {where} "
                "calls backward() and step(), but never clears them.",
                name=name,
                where=line_at(loop.span, step.span),
            ),
            evidence=(step.span, *step.via),
            severity=Severity.ERROR,
            cost=Cost(
                breaks=say("each update adds the gradients of all earlier steps, so training goes wrong silently")
            ),
            subject=f"{step.span.path}:{step.span.line}",
            detail=ZeroGradMissingDetail(optimizer=name),
        )


def _uncleared(loop: Loop, steps: dict[str, Event]) -> dict[str, Event]:
    """The optimizers that nothing clears on an ordinary pass, with their step."""
    clears = [
        event for event in loop.events if _clears(event) and all(g.kind is not GuardKind.ONCE for g in event.guards)
    ]
    if not clears:
        return steps
    cleared = {event.call.receiver if event.call is not None else "" for event in clears}
    if not cleared <= set(steps):
        return {}  # by the model, a parameter, a list: whose gradients they are cannot be told
    return {name: step for name, step in steps.items() if name not in cleared and "[" not in name and not step.inner}


def _clears(event: Event) -> bool:
    if event.call is not None:
        fills = event.call.method in {"zero_", "fill_"} and "grad" in event.call.receiver
        return fills or bool(CLEARS.search(event.call.method))
    targets = event.node.targets if isinstance(event.node, ast.Assign | ast.Delete) else []
    return any(is_attribute(target, "grad") for target in targets)


def _mentioned(node: ast.Call) -> set[str]:
    """The last names of what is called and of what it is given."""
    return {last_name(part) for part in (node.func, *node.args, *(keyword.value for keyword in node.keywords))}


def _functions_that_clear(script: Script) -> frozenset[str]:
    """Names of the script's functions in which gradients are cleared, nested ones included."""
    return frozenset(
        above.name
        for node in nodes(script, ast.Attribute)
        if node.attr == "grad" or CLEARS.search(node.attr)
        for above in enclosing(script, node)
        if isinstance(above, FunctionNode)
    )
