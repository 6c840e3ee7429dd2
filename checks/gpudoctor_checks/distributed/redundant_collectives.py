"""DIST004 redundant-collectives."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from gpudoctor.analysis.live.rank_positions import LEAST_LOOKS, WAITS, phase_share
from gpudoctor.analysis.live.stack_shares import seen_live, watched, where
from gpudoctor.analysis.observation import suspicions
from gpudoctor.analysis.run.cost_attribution import price
from gpudoctor.analysis.run.line_ownership import LineOwner, by_parallelism
from gpudoctor.analysis.run.steady_run import judged
from gpudoctor.analysis.source.autograd_flow import GraphFlow
from gpudoctor.analysis.source.call_frequency import brief, step_period
from gpudoctor.analysis.source.entry_points import Program, training_programs
from gpudoctor.analysis.source.parallelism import wraps_ddp
from gpudoctor.analysis.source.scopes import Key, Scope
from gpudoctor.analysis.source.syntax import is_method_call, nodes
from gpudoctor.analysis.source.syntax_places import lines_at
from gpudoctor.lang import say
from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Detail,
    Finding,
    Patient,
    Reads,
    Severity,
    SourceSpan,
    Threshold,
    Whose,
)
from gpudoctor.model.signs.process import ProcessWindow
from gpudoctor.model.signs.recording import Process
from gpudoctor.model.signs.source import Event, GuardKind, Loop, Script, Source

_OBJECTS = frozenset({"all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list"})
_REDUCES = frozenset({"all_reduce", "reduce", "all_gather", "all_gather_into_tensor", "gather"})
_LOADS = frozenset({"copy_", "load_state_dict", "set_", "lerp_"})
"""What writes into a tensor or a module, whatever its name."""
_UNEVEN = 0.2
"""Difference of the ranks' shares of waits from which on one of them is late."""
_ENGINE_CALLS = {
    "accelerate.Accelerator.wait_for_everyone": "barrier",
    "accelerate.Accelerator.gather": "gather",
    "accelerate.Accelerator.gather_for_metrics": "gather",
    "accelerate.Accelerator.reduce": "reduce",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Collective:
    span: SourceSpan
    name: str
    kind: str
    """`barrier`, `broadcast`, `objects`, `parameters` or `value`."""
    period: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RedundantCollectivesDetail(Detail):
    """What the rule reads."""

    kinds: str
    """`barrier`, `broadcast`, `objects`, `parameters`, `value`, with commas."""


class RedundantCollectives(Check):
    """Ranks run collectives in every step in addition to those of DDP or FSDP for the gradients.

    What it finds:
        In a training loop, on every step or every few:
        - barriers and broadcasts
        - collectives of pickled objects
        - parameters broadcast or reduced again under DistributedDataParallel
        - losses or metrics reduced for the log
    Why it hurts:
        Each collective synchronises all ranks: the slowest rank decides, and later launches wait. Objects are
        pickled, copied to the host and back. DDP already keeps parameters equal.
    How it knows:
        From the source, calls followed into functions of the program; guards (`if step % 50 == 0`) thin them.
        Not reported are values that feed the loss (a gathered batch of features, a token count). Neither are
        values that go into parameters, gradients or buffers, or that decide whether to step. Gradients reduced
        by hand without DDP are not reported. A value reduced for the log is a note: only a run shows its cost.
    False alarms:
        Ranks that must agree on something in each step (early stop on a flag, an uneven number of batches).
    Remedies:
        Remove barriers and broadcasts; reduce values for the log every 50 steps, several in one tensor.
    References:
        - https://pytorch.org/docs/stable/distributed.html#collective-functions
        - https://pytorch.org/docs/stable/notes/ddp.html#internal-design
    """

    code = Code("DIST004")
    name = "redundant-collectives"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING, Reads.PROCESS})
    severity = Severity.WARNING
    thresholds = (
        *Threshold.note_and_warning("Collectives that take this share of a recorded run are", noted=0.03, warned=0.08),
        Threshold(
            name="period",
            default=10,
            unit="{step}",
            source="convention: collectives every few steps are known to cost 5 % and more",
            meaning="Collectives less often than once in this many steps are not findings.",
        ),
        Threshold(
            name="measurement_steps",
            default=20,
            unit="{step}",
            source="convention: benchmarks and demonstrations of an interface make 5 to 20 steps",
            meaning="A loop known to end within this many steps is a measurement, not a training.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        if (window := watched(patient)) is not None:
            yield from self._live(patient, window)
            return
        run = judged(patient)
        suspected = suspicions(lambda: self._suspected(patient), run)
        if run is None or len(run.states) < 2:
            alone = run is not None and _alone(run.lead.process)
            # One rank waits for nobody; but the program may be started on more.
            yield from (replace(item, severity=Severity.NOTE) for item in suspected) if alone else suspected
            return
        seen = price(
            patient, run, phases=("collective",), owners=(LineOwner.COMMUNICATION,),
            wanted=lambda site: not by_parallelism(site) and site.steps > 1,  # not a meeting at the end
        )  # fmt: skip
        severity = seen.level(self)
        if severity is None:
            return
        yield seen.finding(
            self,
            say(
                "The program's own collectives take {words}: {calls:.2g} a step of {what}{where}.",
                words=seen.words,
                calls=seen.calls,
                what=seen.what or say("them"),
                where=seen.where,
            ),
            name="collective_share",
            severity=severity,
            suspected=suspected,
            detail=RedundantCollectivesDetail(kinds=_kinds(site.what for site in seen.sites)),
        )

    def _live(self, patient: Patient, window: ProcessWindow) -> Iterator[Finding]:
        """Collectives that the script calls itself; those of DDP and FSDP are no Python frames of it."""
        if len(window.ranks) < 2:
            return
        kinds = ("collective", "object-collective")
        seen = seen_live(window, lambda place: place.kind in kinds, whose=Whose.DEVICE)
        severity = seen.level(self)
        if severity is None:
            return
        waits = [phase_share(rank, *WAITS) for rank in window.ranks if rank.samples >= LEAST_LOOKS]
        if len(waits) == len(window.ranks) and max(waits) - min(waits) > _UNEVEN:
            return  # they wait for one of them, not for the network
        yield seen.finding(
            self,
            say(
                "The ranks wait in collectives that the script calls itself, {words}{where}.",
                words=seen.words,
                where=where(seen.places),
            ),
            name="collective_share",
            severity=severity,
            suspected=suspicions(lambda: self._suspected(patient), seen),
            detail=RedundantCollectivesDetail(kinds=_kinds(place.via for place in seen.places)),
        )

    def _suspected(self, patient: Patient) -> Iterator[Finding]:
        seen: set[tuple[str, int]] = set()
        for program in training_programs(patient.source):
            for script, loop in program.loops:
                if brief(script, loop, self.limit("measurement_steps")):
                    continue
                found = [
                    item for item in self._collectives(program, loop) if (item.span.path, item.span.line) not in seen
                ]
                seen |= {(item.span.path, item.span.line) for item in found}
                yield from self._from_source(script, loop, found)

    def _from_source(self, script: Script, loop: Loop, found: list[_Collective]) -> Iterator[Finding]:
        for kinds in (("barrier", "broadcast", "objects", "parameters"), ("value",)):
            here = [item for item in found if item.kind in kinds]
            if not here:
                continue
            names = ", ".join(dict.fromkeys(item.name for item in here))
            where = lines_at(item.span for item in here)
            period = min(item.period for item in here)
            often = say("every step") if period == 1 else say("every {period:g} steps", period=period)
            why = (
                say("all ranks wait for each other")
                if kinds != ("value",)
                else say("a value for the log synchronises all ranks")
            )
            yield self.finding(
                say(
                    "{names} runs on {often} of the training loop ({where}): {why}.",
                    names=names,
                    often=often,
                    where=where,
                    why=why,
                )
                if period == 1
                else say(
                    "{names} runs {often} of the training loop ({where}): {why}.",
                    names=names,
                    often=often,
                    where=where,
                    why=why,
                ),
                evidence=(*(item.span for item in here[:8]), loop.span),
                confidence=Confidence.SUSPECTED,
                severity=Severity.NOTE if kinds == ("value",) else Severity.WARNING,
                subject=f"{script.path}:{loop.span.line}",
                detail=RedundantCollectivesDetail(kinds=",".join(sorted({item.kind for item in here}))),
            )

    def _collectives(self, program: Program, loop: Loop) -> Iterator[_Collective]:
        flow: GraphFlow | None = None
        needed: set[Key] = set()
        ddp = bool(wraps_ddp(program))
        for event in loop.events:
            kind = _kind(event, ddp)
            if kind is None or event.call is None or any(guard.kind is GuardKind.RANK for guard in event.guards):
                continue
            period = step_period(event)
            if period is None or period >= self.limit("period"):
                continue
            if kind in {"value", "broadcast", "objects"}:
                if flow is None:
                    flow = GraphFlow(Source(scripts=program.scripts), loop)
                    needed = flow.upstream | flow.sources(_state(program, loop))
                if _feeds(event, flow, needed):
                    continue
            yield _Collective(span=event.span, name=event.call.method, kind=kind, period=period)


def _alone(process: Process) -> bool:
    """Whether a process is the only one of its job."""
    start = process.first("start")
    return start is not None and int(start.get("world") or 1) < 2


def _kind(event: Event, ddp: bool) -> str | None:
    """What a collective is for; None when it is none, or one that training needs."""
    call = event.call
    if call is None:
        return None
    engine = _ENGINE_CALLS.get(call.name)
    if engine is None and not call.name.startswith("torch.distributed."):
        return None
    name = engine or call.name.removeprefix("torch.distributed.")
    if "." in name:
        return None  # functional collectives, tensor parallelism, RPC
    if name in {"barrier", "monitored_barrier"}:
        return "barrier"
    if name in _OBJECTS:
        return "objects"
    if name not in _REDUCES and name != "broadcast":
        return None
    if _of_parameters(event):
        return "parameters" if ddp else None
    if call.open_ended or call.argument("group", 9) is not None:
        return None  # a group of its own: tensor or pipeline parallelism
    return "broadcast" if name == "broadcast" else "value"


def _of_parameters(event: Event) -> bool:
    """Whether a collective goes over parameters or their gradients."""
    call = event.call
    text = " ".join(ast.unparse(item) for item in call.node.args[:1]) if call is not None else ""
    loops = " ".join(loop.iterates for loop in event.inner)
    return "grad" in text or "param" in text or any(word in loops for word in ("parameters()", "params", "buffers()"))


def _feeds(event: Event, flow: GraphFlow, needed: set[Key]) -> bool:
    """Whether what it gives goes into a backward of the pass or into the model, or decides about a step."""
    call = event.call
    if call is None:
        return False
    names = {
        ast.unparse(part)
        for argument in call.node.args[: 1 if call.method in _OBJECTS else 2]
        for part in ast.walk(argument)
        if isinstance(part, ast.Name | ast.Attribute)
    }
    if any(flow.key(name, event.via) in needed for name in names):
        return True
    result = f"<result {call.node.lineno}:{call.node.col_offset + 1}>"
    return (event.via, result) in needed


def _state(program: Program, loop: Loop) -> Iterator[tuple[ast.expr, Scope]]:
    """What a pass writes into parameters, gradients and buffers, and what its steps depend on."""
    held = _held(program)
    for event in loop.events:
        node = event.node
        if is_method_call(node):
            method, owner = node.func.attr, ast.unparse(node.func.value)
            if method in _LOADS or (method.endswith("_") and not method.startswith("_") and _of_model(owner, held)):
                yield from ((argument, event.via) for argument in node.args)
        elif isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(_of_model(ast.unparse(target), held) for target in targets):
                yield node.value, event.via
    for script in program.scripts:
        for guarded in nodes(script, ast.If):
            inside = [call for item in guarded.body for call in ast.walk(item) if isinstance(call, ast.Call)]
            leaves = any(isinstance(item, ast.Continue | ast.Break) for item in guarded.body)
            if leaves or any(_last(call) in {"step", "backward", "zero_grad"} for call in inside):
                for via in {event.via for event in loop.events if event.span.path == script.path}:
                    yield guarded.test, via


def _last(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _of_model(text: str, held: frozenset[str]) -> bool:
    """Whether a target is a parameter, a gradient or a buffer: `self.centre`, `p.grad`, `weight.data`."""
    parts = text.partition("[")[0].split(".")
    return len(parts) > 1 and (parts[-1] in {"grad", "data"} or bool(held.intersection(parts[1:])))


def _held(program: Program) -> frozenset[str]:
    """Names of the buffers and parameters that the program's classes make."""
    found: set[str] = set()
    for _, call in program.calls:
        if call.method == "register_buffer" and call.node.args and isinstance(call.node.args[0], ast.Constant):
            found.add(str(call.node.args[0].value))
    for script in program.scripts:
        for node in nodes(script, ast.Assign):
            if "Parameter(" in ast.unparse(node.value):
                found |= {target.attr for target in node.targets if isinstance(target, ast.Attribute)}
    return frozenset(found)


def _kinds(called: Iterable[str]) -> str:
    """The kinds of collectives that were seen, `barrier,value`."""
    return ",".join(sorted({_kind_of(what) for what in called} or {"value"}))


def _kind_of(what: str) -> str:
    """The kind of a collective that a run has seen: `dist.all_reduce`."""
    name = what.rpartition(".")[2]
    if "barrier" in name:
        return "barrier"
    if "object" in name:
        return "objects"
    return "broadcast" if name in ("broadcast", "scatter") else "value"
