"""LOOP003: gradient accumulation or the schedule around the step is put together wrongly."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpudoctor.analysis.run.steady_run import one_pass_a_step
from gpudoctor.analysis.source.accumulation import (
    ACCUMULATION,
    Cycle,
    LossFlow,
    counts_micro_batches,
    cycle_of,
    divides_itself,
    each_micro_batch,
    rescaled,
)
from gpudoctor.analysis.source.control_flow import bound_to
from gpudoctor.analysis.source.entry_points import Program, training_programs
from gpudoctor.analysis.source.step_order import (
    OPTIMIZER,
    SCALER,
    SCHEDULER,
    Kind,
    StepOp,
    StepOrder,
    apart,
    passes,
    script_of,
)
from gpudoctor.analysis.source.syntax import nodes, receiver
from gpudoctor.analysis.source.syntax_places import extent, line_at, place
from gpudoctor.analysis.source.target_versions import Meant, meant_version, told_version
from gpudoctor.lang import say
from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Detail,
    Evidence,
    Finding,
    Patient,
    Reads,
    Severity,
    TrackRecord,
)
from gpudoctor.model.cuda import numbers
from gpudoctor.model.signs.source import Call, GuardKind, LoopRole, Script, Source

_SCHEDULERS = re.compile(r"lr_scheduler\.|get_\w{0,60}sched\w{0,60}$", re.IGNORECASE)


_SCHEDULER_MADE = re.compile(
    r"torch\.optim\.lr_scheduler\.[A-Z]\w*$|transformers\.get_\w{0,60}schedule\w{0,60}$"
)
_OPTIMIZER_FIRST = (1, 1)
"""The torch from which a scheduler steps after the optimizer (release notes of 1.1)."""
_ENGINES = frozenset({"accelerate", "deepspeed", "lightning", "pytorch_lightning", "ignite", "fastai", "mmcv"})
_TAKES_A_SCHEDULER = ("torch.optim.lr_scheduler.", "print", "len", "isinstance", "tqdm.", "repr", "str", "id")
"""Calls that step no scheduler that they are given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccumulationWrongDetail(Detail):
    """What the rule reads."""

    how: str
    """`undivided`, `cleared`, `scheduled`, `early`, `never` or `twice`."""
    guilty: str = ""
    """Place of the call that stands wrong."""
    step: str = ""
    """Place of the optimizer's step."""
    edit_at: str = ""
    """Extent of the expression to replace."""
    text: str = ""
    """What is to stand there."""
    count: str = ""
    """Micro-batches of a step."""
    kept: bool = False
    """Another clearing stays."""
    epochs: bool = False
    """The loop is over epochs."""


class AccumulationWrong(Check):
    """Gradient accumulation, or the learning rate's schedule, is wrong.

    What it finds:
        In a loop that steps every N micro-batches:
        - a loss that is not divided by N
        - gradients cleared on each micro-batch
        - a scheduler stepped on each micro-batch
        - a loss divided twice under `accelerator.accumulate`

        In any loop: `scheduler.step()` before `optimizer.step()`, and a scheduler that is built but never
        stepped.
    Why it hurts:
        Undivided, the gradient is N times too large: the learning rate is in effect N times higher. Cleared on
        each micro-batch, N - 1 of N batches are wasted. A schedule stepped per micro-batch decays N times too
        fast. A scheduler before the optimizer skips the first value of its schedule. One that is never stepped
        keeps the learning rate at its first value.
    How it knows:
        It reads the order and the guards (`if (i + 1) % N == 0`) of backward, step, clear and schedule in one
        pass. It follows the loss back to its computation. Before torch 1.1 the scheduler stepped first. If the
        project's files or its README name such a torch, that order is a note. It is also a note if the
        scheduler steps with each batch: it skips one of thousands of values. A recorded run with one backward
        pass per step does not accumulate, so it refutes the finding.
    False alarms:
        Losses summed over tokens and normalised elsewhere, and gradients rescaled before the step, are not
        findings. Neither is accumulation by Trainer, Lightning, DeepSpeed and Accelerate. Nor is a schedule
        whose length is counted in micro-batches. If you sum gradients on purpose, silence it on the line.
    Remedies:
        Divide the loss by N; clear gradients and step the schedule right after the optimizer's step.
    References:
        - https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation
        - https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate
        - https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation
    """

    code = Code("LOOP003")
    name = "accumulation-wrong"
    track_record = TrackRecord(right=5, wrong=6)
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    severity = Severity.WARNING

    def examine(self, patient: Patient) -> Iterator[Finding]:
        source = patient.source
        said: set[ast.AST] = set()
        refuted = one_pass_a_step(patient)
        for one in passes(source):
            found: list[tuple[ast.AST, Finding]] = []
            if not (one.closures or one.opaque):
                found = [*(() if refuted else self._accumulation(one)), *self._twice(one)]
            for node, finding in [*found, *self._early(patient, one)]:
                if node not in said:
                    said.add(node)
                    yield finding
        for script in source.scripts:
            for loop in script.loops:
                if loop.role is LoopRole.EPOCHS and loop.engine is None:
                    for node, finding in self._early(patient, StepOrder(source, loop)):
                        if node not in said:
                            said.add(node)
                            yield finding

        for program in training_programs(source):
            yield from self._unstepped(program)

    def _unstepped(self, program: Program) -> Iterator[Finding]:
        """A scheduler of a loop written by hand, in a program in which nothing steps one."""
        by_hand = all(loop.engine is None for _, loop in program.loops)
        if not (by_hand and program.starts) or program.roots & _ENGINES:
            return
        makers = [
            (script, call)
            for script, call in program.calls
            if _SCHEDULER_MADE.match(call.name) and not any(guard.never for guard in call.guards)
        ]
        if not makers:
            return
        waiting = []
        for _, call in program.calls:
            if "step" not in call.method or _steps_an_optimizer(call):
                continue
            if not any(guard.never for guard in call.guards):
                return
            waiting.append(call)
        if any(_hands_on_steps(script) or _sets_the_rate(script) for script in program.scripts):
            return
        names = {script.path: bound_to(script, call.node).rpartition(".")[2] for script, call in makers}
        if not all(names.values()) or _given_away(program, frozenset(names.values())):
            return
        script, made = makers[0]
        never = next((guard for call in waiting[:1] for guard in call.guards if guard.never), None)
        why = (
            say(": {place} waits for {never}", place=line_at(waiting[0].span, made.span), never=never.text)
            if never is not None
            else ""
        )
        yield self.finding(
            say(
                "{scheduler} is built, but the program never steps it{why}. The learning rate "
                "keeps its first value.",
                scheduler=bound_to(script, made.node),
                why=why,
            ),
            evidence=(made.span, *(call.span for call in waiting[:3])),
            confidence=Confidence.SUSPECTED,
            subject=f"{made.span.path}:{made.span.line}",
            detail=AccumulationWrongDetail(how="never", text=f"{bound_to(script, made.node)}.step()"),
        )

    def _accumulation(self, one: StepOrder) -> Iterator[tuple[ast.AST, Finding]]:
        cycle = cycle_of(one)
        if cycle is None:
            return
        clears = [item for item in one.of(Kind.CLEAR) if each_micro_batch(item, cycle)]
        own = [item for item in clears if item.subject == cycle.step.subject]
        if own and len({item.subject for item in one.of(Kind.STEP)}) == 1:
            yield own[0].node, self._cleared(one, cycle, own[0])
        else:
            yield from self._undivided(one, cycle)
        for item in one.of(Kind.SCHEDULE):
            if (
                each_micro_batch(item, cycle)
                and not item.node.args
                and not counts_micro_batches(one, item, cycle.count)
            ):
                yield item.node, self._scheduled(cycle, item)

    def _cleared(self, one: StepOrder, cycle: Cycle, clear: StepOp) -> Finding:
        kept = any(not each_micro_batch(item, cycle) for item in one.of(Kind.CLEAR))
        return self._finding(
            say(
                "{subject}.zero_grad() clears the gradients on each micro-batch, but {step} "
                "follows only after {cycle_count} of them. All but the last are lost.",
                subject=clear.subject,
                step=_step(cycle.step),
                cycle_count=cycle.count,
            ),
            AccumulationWrongDetail(how="cleared", kept=kept, text=f"{clear.subject}.zero_grad()"),
            clear,
            cycle.step,
        )

    def _undivided(self, one: StepOrder, cycle: Cycle) -> Iterator[tuple[ast.AST, Finding]]:
        call = cycle.backward.event.call
        if call is None or divides_itself(one.source, call) or rescaled(one):
            return
        flow = LossFlow(one.source, one.loop)
        loss = _loss_node(cycle.backward.node)
        if loss is None or flow.scaled(loss, cycle.backward.event, cycle.count):
            return
        script = script_of(one.source, cycle.backward.event.span)
        shown = ast.unparse(loss)
        wrapped = shown if isinstance(loss, ast.Name | ast.Attribute | ast.Call) else f"({shown})"
        text = f"{wrapped} / {cycle.count}"
        if shown == ast.unparse(cycle.backward.node.func).removesuffix(".backward"):
            text = f"({text})"
        yield (
            cycle.backward.node,
            self._finding(
                say(
                    "{cycle_count} micro-batches add up to one {step}, and {shown} is not divided by "
                    "{cycle_count}. The gradient is their sum, not their mean.",
                    cycle_count=cycle.count,
                    step=_step(cycle.step),
                    shown=shown,
                ),
                AccumulationWrongDetail(
                    how="undivided",
                    edit_at="" if script is None else extent(script, loss),
                    text=text,
                    count=cycle.count,
                ),
                cycle.backward,
                cycle.step,
            ),
        )

    def _scheduled(self, cycle: Cycle, item: StepOp) -> Finding:
        return self._finding(
            say(
                "{subject}.step() runs on each micro-batch, {step} every {cycle_count}: the "
                "schedule runs {cycle_count} times too fast.",
                subject=item.subject,
                step=_step(cycle.step),
                cycle_count=cycle.count,
            ),
            AccumulationWrongDetail(how="scheduled"),
            item,
            cycle.step,
        )

    def _twice(self, one: StepOrder) -> Iterator[tuple[ast.AST, Finding]]:
        """A loss divided by hand where Accelerate divides it again."""
        if one.loop.accumulates is None or not any(one.loop.calls("accelerate.Accelerator.accumulate")):
            return
        for back in one.of(Kind.BACKWARD):
            loss = _loss_node(back.node)
            call = back.event.call
            if loss is None or call is None or not call.name.startswith("accelerate."):
                continue
            found = LossFlow(one.source, one.loop).division(loss, back.event, ACCUMULATION)
            script = script_of(one.source, back.event.span)
            if found is None or (script is not None and apart(script, found.lineno, back.event.span.line)):
                continue
            edit_at = extent(script, found) if script is not None else ""
            yield (
                back.node,
                self._finding(
                    say(
                        "The loss is divided by hand ({expression}), and {receiver}.backward() "
                        "divides it by gradient_accumulation_steps again.",
                        expression=ast.unparse(found),
                        receiver=call.receiver,
                    ),
                    AccumulationWrongDetail(how="twice", edit_at=edit_at),
                    back,
                    back,
                ),
            )

    def _early(self, patient: Patient, one: StepOrder) -> Iterator[tuple[ast.AST, Finding]]:
        """A scheduler that steps before the optimizer has stepped in the pass."""
        epochs = one.loop.role is LoopRole.EPOCHS
        steps = one.of(Kind.STEP)
        if not steps or one.closures:
            return
        first = one.index(steps[0])
        for item in one.of(Kind.SCHEDULE):
            inside = any(inner.role is LoopRole.TRAINING for inner in item.event.inner)
            if one.index(item) > first or (epochs and inside) or item.node.args or item.node.keywords:
                continue
            if not _is_torch(one.source, item) or _guards(item) != (() if epochs else _guards(steps[0])):
                continue
            if not one.together(item, steps[0]) or (epochs and not _trains_directly(one, item)):
                continue
            old = _first_then(patient, item.event.span.path)
            result = (
                say(
                    "torch before 1.1 requires this order ({origin}), and a newer one skips the first "
                    "value of "
                    "the schedule.",
                    origin=old.origin,
                )
                if old is not None
                else say("the first value of the schedule is skipped.")
            )
            yield (
                item.node,
                self._finding(
                    say(
                        "{scheduler}.step() comes before {step} ({place}): {result}",
                        scheduler=item.subject,
                        step=_step(steps[0]),
                        place=line_at(steps[0].event.span, item.event.span),
                        result=result,
                    ),
                    AccumulationWrongDetail(how="early", epochs=epochs),
                    item,
                    steps[0],
                    severity=Severity.NOTE if old is not None or not epochs else None,
                ),
            )

    def _finding(
        self,
        message: str,
        detail: "AccumulationWrongDetail",
        guilty: StepOp,
        step: StepOp,
        *,
        severity: Severity | None = None,
    ) -> Finding:
        evidence: tuple[Evidence, ...] = (guilty.event.span, *guilty.event.via)
        if step is not guilty:
            evidence = (*evidence, step.event.span)
        return self.finding(
            message,
            evidence=evidence,
            confidence=Confidence.SUSPECTED,
            severity=severity,
            subject=f"{guilty.event.span.path}:{guilty.event.span.line}",
            detail=replace(detail, guilty=place(guilty.event.span), step=place(step.event.span)),
        )


def _first_then(patient: Patient, path: str) -> Meant | None:
    """The older torch that a script is written for, in which the scheduler steps first; None for any other."""
    for meant in (meant_version(patient, "torch", path), told_version(patient, "torch", path)):
        if meant is not None and not meant.installed and meant.version is not None:
            return meant if numbers(meant.version) < _OPTIMIZER_FIRST else None
    return None


def _steps_an_optimizer(call: Call) -> bool:
    name, last = call.receiver_type or "", call.receiver.rsplit(".", 1)[-1]
    if call.method != "step" or "lr_scheduler" in name or (not name and SCHEDULER.search(last)):
        return False  # `opt_scheduler` has both words
    by_type = name.startswith("torch.optim.") and "lr_scheduler" not in name
    return by_type or "GradScaler" in name or bool(OPTIMIZER.search(last) or SCALER.search(last))


def _hands_on_steps(script: Script) -> bool:
    """Whether a method `step` is handed on without a call: a hook, a callback."""
    called = {call.func for call in nodes(script, ast.Call)}
    return any(node.attr == "step" and node not in called for node in nodes(script, ast.Attribute))


def _sets_the_rate(script: Script) -> bool:
    """Whether the script writes learning rates itself: `group["lr"] = rate`."""
    return any(
        isinstance(node.ctx, ast.Store) and isinstance(node.slice, ast.Constant) and node.slice.value == "lr"
        for node in nodes(script, ast.Subscript)
    )


def _given_away(program: Program, names: frozenset[str]) -> bool:
    """Whether schedulers of these names go where the reader cannot follow: a library's call, a container."""
    defined = {node.name for item in program.scripts for node in nodes(item, ast.FunctionDef, ast.ClassDef)}
    for script in program.scripts:
        for call in script.calls:
            given = [*call.node.args, *(item.value for item in call.node.keywords)]
            if not any(_named(node, names) for node in given) or call.name.startswith(_TAKES_A_SCHEDULER):
                continue
            if call.method not in defined:
                return True
        for node in nodes(script, ast.List, ast.Dict, ast.Set):
            if any(
                _named(value, names) for value in (node.values if isinstance(node, ast.Dict) else node.elts)
            ):
                return True
    return False


def _named(node: ast.expr | None, names: frozenset[str]) -> bool:
    if isinstance(node, ast.Starred):
        node = node.value
    last = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return last in names


def _loss_node(node: ast.Call) -> ast.expr | None:
    """`loss` of `loss.backward()`, `scaler.scale(loss).backward()`, `accelerator.backward(loss)`."""
    if node.args:
        return None if isinstance(node.args[0], ast.Starred) else node.args[0]
    owner = receiver(node)
    if isinstance(owner, ast.Call) and ast.unparse(owner.func).endswith(".scale") and owner.args:
        return owner.args[0]
    return owner


def _is_torch(source: Source, item: StepOp) -> bool:
    """Whether a scheduler is torch's, or made by a factory of transformers."""
    call = item.event.call
    if call is None or not call.name.startswith("torch.optim.lr_scheduler"):
        return False
    made = any(_SCHEDULERS.search(other.name) for script in source.scripts for other in script.calls)
    own = any("sched" in name.lower() or "lr" in name.lower() for s in source.scripts for name in s.classes)
    return not call.guessed or (made and not own)


def _guards(item: StepOp) -> tuple[tuple[int, str], ...]:
    return tuple((guard.line, guard.text) for guard in item.event.guards if guard.kind is not GuardKind.RANK)


def _trains_directly(one: StepOrder, item: StepOp) -> bool:
    """Whether the training loop follows in the same pass of the epochs' loop."""
    return any(
        any(inner.role is LoopRole.TRAINING for inner in step.event.inner) and one.index(step) > one.index(item)
        for step in one.of(Kind.STEP)
    )


def _step(moment: StepOp) -> str:
    return f"{moment.scaler}.step({moment.subject})" if moment.scaler else f"{moment.subject}.step()"
