"""NUM008: the optimizer does not hold the parameters that are trained."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.model import Check, Code, Confidence, Cost, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.reading.modes import forwards, model_of, resolved
from gpudoctor.model.reading.optimizers import (
    Bound,
    assignments_to,
    follows,
    function_of,
    optimizers,
    statement_of,
)
from gpudoctor.model.reading.places import extent, resolved_calls
from gpudoctor.model.reading.program import enclosing
from gpudoctor.model.reading.programs import Program, training_programs
from gpudoctor.model.reading.recordings.bystanders import forgotten
from gpudoctor.model.reading.recordings.costs import place_of
from gpudoctor.model.reading.recordings.curves import numerics
from gpudoctor.model.reading.recordings.judged import (
    Run,
    judged,
    measured,
    percent,
    processes,
    spot,
)
from gpudoctor.model.reading.recordings.pricing import confirmed, suspicions
from gpudoctor.model.reading.scopes import Scopes
from gpudoctor.model.signs.recording import Process, Record
from gpudoctor.model.signs.source import Call, Script

_BUILDERS = re.compile(
    r"^(torchvision\.models\.(\w+\.)?[a-z]\w*|timm\.create_model|.*\.from_pretrained|copy\.deepcopy|peft\.get_peft_model)$"
)
_ENGINES = ("accelerate.Accelerator.prepare", "deepspeed.initialize", "lightning.Fabric.setup")
_SHARDS = re.compile(r"(^|\.)(FullyShardedDataParallel|FSDP|fully_shard)$")
_WEIGHTED = re.compile(
    r"^torch\.nn\.(Linear|Bilinear|Conv\w+|Embedding\w*|LSTM|GRU|RNN|\w*BatchNorm\w*|LayerNorm|Transformer\w*|"
    r"MultiheadAttention|Parameter|PReLU)$"
)
_HELPERS = re.compile(
    r"teacher|ema|vgg|lpips|percept|criter|loss|target|frozen|ref|reward|vae|text_enc|clip", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class _Case:
    bound: Bound
    message: str
    breaks: str
    place: ast.AST
    how: str
    text: str = ""


_ALL = 0.95
"""Share of unmoved elements that nobody leaves alone on purpose."""


class WeightsFrozen(Check):
    """The optimizer does not hold the parameters of the model that is trained.

    What it finds:
        An optimizer built before the model (or one of its layers) is replaced by a new one, wrapped by FSDP or
        given LoRA adapters; over a copy (`deepcopy(model).parameters()`), a model built on the spot, the
        tensors of a `state_dict()`, or parameters that are all frozen; two optimizers over the same model
        while a second one in the loop has none; one over a model that the loop does not use. In a recording:
        weights that no step moves, and a second model that gets gradients and is in no optimizer.
    Why it hurts:
        `step()` updates tensors that the model no longer uses. The loss is computed, gradients flow, and the
        weights stay as they are: hours of training for the initial model, or for all but the new layer.
    How it knows:
        It follows the expression given to the optimizer, and what the same function does with that model
        afterwards, on ways that are always taken.
    False alarms:
        `.to(device)`, `torch.compile`, DDP and SyncBatchNorm keep the same parameters. An optimizer that is
        built again, or gets the new parameters with `add_param_group`, is no finding; nor is what happens
        behind a condition. A model that is called a teacher, was loaded, copied, or is in eval mode, is
        LOOP011's.
    Remedies:
        Build the optimizer after the model has its final form.
    References:
        - https://docs.pytorch.org/docs/stable/optim.html#constructing-it
        - https://docs.pytorch.org/docs/stable/fsdp.html
        - https://www.usenix.org/conference/osdi25/presentation/jiang
    """

    code = Code("NUM008")
    name = "weights-frozen"
    reads = frozenset({Reads.SOURCE, Reads.RECORDING})
    severity = Severity.ERROR
    thresholds = (
        Threshold(
            name="steps",
            default=20,
            unit="{steps}",
            source="CATALOGUE: a dead parameter counts from 20 steps; a warm-up from rate 0 is over by then",
            meaning="Fewer steps looked at in a recording say nothing.",
        ),
        Threshold(
            name="frozen_share",
            default=0.2,
            unit="1",
            source="CATALOGUE NUM005's share for an error",
            meaning="From this share of unmoved trainable elements on it is an error, below a note.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        idle = next((item for rank in processes(patient) for item in numerics(rank, "unstepped")), None)
        if idle is not None:
            yield self._unstepped(patient, idle)
            return
        run = judged(patient, self.limit("steps"))
        suspected = suspicions(lambda: self._from_source(patient), run)
        if run is None:
            yield from suspected
            return
        process = run.lead.process
        for item in forgotten(patient, process, self.limit("steps")):
            yield self._forgotten(patient, run, item)
        readings = [
            item for item in numerics(process, "frozen") if int(item.get("steps") or 0) >= self.limit("steps")
        ]
        still = readings[-1] if readings else None
        unheld = _unheld(process)
        if still is not None and not still.get("parameters"):
            return  # everything moves
        if still is None and not unheld:
            yield from suspected
            return
        named = list(map(str, still.get("parameters"))) if still is not None else sorted(unheld)
        share = float(still.get("share") or 0.0) if still is not None else 1.0
        more = f" and {len(named) - 3} more" if len(named) > 3 else ""
        left = set(named) <= _missing(process)
        # An optimizer made for a part of the model, or beside a second model, leaves the rest alone on purpose.
        much = share >= self.limit("frozen_share") if not left else bool(unheld) or share >= _ALL
        where = place_of(process.of("optimizer")[-1]) if process.of("optimizer") else None
        why = "no optimizer holds them" if left else "although an optimizer holds them"
        yield confirmed(
            self,
            suspected,
            f"The steps leave {', '.join(named[:3])}{more} as they were, {percent(share)} of the trainable "
            f"elements: {why}.",
            share=None,
            spans=[spot(patient, where)] if where is not None else [],
            severity=Severity.ERROR if much else Severity.NOTE,
            run=run,
            numbers=(measured("unmoved_share", share, "1", run.recording),),
            breaks="the weights do not learn" if much else None,
        )

    def _forgotten(self, patient: Patient, run: Run, item: Record) -> Finding:
        """A model beside the trained one gets gradients, and no optimizer was given its parameters."""
        name, steps = str(item.get("model") or "a second model"), int(item.get("steps") or 0)
        made = run.lead.process.of("optimizer")
        places = [place_of(record) for record in (item, *made[-1:])]
        return confirmed(
            self,
            (),
            f"{name} gets gradients in {steps} training steps, and no optimizer holds its parameters: it stays "
            "as it was made.",
            share=None,
            spans=[spot(patient, place) for place in places if place is not None],
            severity=Severity.ERROR,
            run=run,
            numbers=(measured("forward_passes", steps, "{steps}", run.recording),),
            facts=(("how", "forgotten"), ("text", name)),
            breaks=f"{name} does not learn",
        )

    def _unstepped(self, patient: Patient, idle: Record) -> Finding:
        """An optimizer was made, and no step of it was seen in all the backward passes."""
        made = next((item for rank in processes(patient) for item in rank.of("optimizer")), None)
        places = [place_of(item) for item in (idle, made) if item is not None]
        return self.finding(
            f"{idle.get('backwards')} backward passes were made, and the optimizer never made a step: its "
            "step() is not called.",
            evidence=(
                *(spot(patient, place) for place in places if place is not None),
                measured("backward_passes", int(idle.get("backwards") or 0), "1", patient.recording),
            ),
            confidence=Confidence.CONFIRMED,
            severity=Severity.ERROR,
            cost=Cost(breaks="the weights do not learn"),
            subject="step",
            facts=(("how", "step"),),
        )

    def _from_source(self, patient: Patient) -> Iterator[Finding]:
        said: set[ast.AST] = set()
        for program in training_programs(patient.source):
            bounds = [one for one in optimizers(program.source) if not _prepared(program, one)]
            for case in (*_alone(program, bounds), *_between(program, bounds)):
                if case.bound.call.node not in said:
                    said.add(case.bound.call.node)
                    yield self._found(case)

    def _found(self, case: _Case) -> Finding:
        script, whole = case.bound.script, statement_of(case.bound)
        return self.finding(
            case.message,
            evidence=(case.bound.call.span, script.span(case.place)),
            confidence=Confidence.SUSPECTED,
            cost=Cost(breaks=case.breaks),
            subject=f"{script.path}:{case.bound.call.span.line}",
            facts=(
                ("how", case.how),
                ("optimizer", case.bound.name),
                ("statement", extent(script, whole) if whole is not None else ""),
                ("edit_at", extent(script, case.place)),
                ("text", case.text),
            ),
        )


def _missing(process: Process) -> set[str]:
    """Trainable parameters that no optimizer holds, by name (the recorder names the first 64 of each)."""
    held = [set(map(str, item.get("missing") or ())) for item in process.of("optimizer")]
    return set.intersection(*held) if held else set()


def _unheld(process: Process) -> set[str]:
    """Parameters of the one model that the one optimizer does not hold, although it holds as many elements.

    It then steps other tensors than the model's. One that holds fewer was made for a part of the model.
    """
    models, optimizers = process.of("model"), process.of("optimizer")
    if len(models) != 1 or len(optimizers) != 1:
        return set()
    own, whole = int(optimizers[0].get("parameters") or 0), int(models[0].get("trainable") or 0)
    return _missing(process) if own >= whole > 0 else set()


def _prepared(program: Program, one: Bound) -> bool:
    """Whether an engine binds the optimizer anew, or it gets more parameters later."""
    last = one.name.rsplit(".", 1)[-1]
    for script in program.scripts:
        if any(call.receiver.rsplit(".", 1)[-1] == last for call in script.calls_to(".add_param_group")):
            return True
        if any(True for _ in script.calls_to(*_ENGINES)):
            return True
    return False


def _alone(program: Program, bounds: list[Bound]) -> Iterator[_Case]:
    for one in bounds:
        found = _copy(program, one) or _replaced(program, one, bounds) or _all_frozen(program, one)
        if found is not None:
            yield found


def _copy(program: Program, one: Bound) -> _Case | None:
    """Parameters of something that nobody else can reach."""
    breaks = f"{one.name or 'the optimizer'} steps tensors that no model uses, so nothing is trained"
    for owner in one.owners:
        call = _call(one.script, owner)
        if call is None or len(one.owners) > 1:
            continue
        if call.name == "copy.deepcopy" and call.node.args:
            text = ast.unparse(call.node.args[0])
            message = f"{one.name} holds the parameters of a copy of {text}, not those of {text}."
            return _Case(one, message, breaks, owner, "copy", text)
        if _builds(program, call) and call.name != "copy.deepcopy":
            message = f"{one.name} holds the parameters of a model built on the spot ({ast.unparse(owner)})."
            return _Case(one, message, breaks, owner, "copy")
    given = one.given
    if isinstance(given, ast.Call) and ast.unparse(given.func) == "list" and given.args:
        given = given.args[0]
    text = ast.unparse(given)
    if re.fullmatch(r"[\w.]+\.state_dict\(\)\.values\(\)", text):
        message = f"{one.name} holds the tensors of a state_dict(): they never get gradients."
        return _Case(
            one, message, breaks, one.given, "copy", text.replace("state_dict().values()", "parameters()")
        )
    return None


def _replaced(program: Program, one: Bound, bounds: list[Bound]) -> _Case | None:
    """A model, or a layer of it, that is replaced after the optimizer was built over it."""
    scope = function_of(one.script, one.call.node)
    for root in one.roots:
        for node in ast.walk(scope):
            for statement, target, value in _changes(node):
                if not follows(one.script, statement, one.call.node):
                    continue
                if _rebuilt(one, root, statement, bounds) or _used(one, statement):
                    continue
                case = _change(program, one, root, statement, target, value)
                if case is not None:
                    return case
    return None


def _changes(node: ast.AST) -> Iterator[tuple[ast.stmt, str, ast.expr]]:
    """What a statement replaces, with what: an assignment, or `fully_shard(model)`."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        yield node, ast.unparse(node.targets[0]), node.value
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and node.value.args:
        yield node, ast.unparse(node.value.args[0]), node.value


def _change(
    program: Program, one: Bound, root: str, statement: ast.stmt, target: str, value: ast.expr
) -> _Case | None:
    call = _call(one.script, value)
    if call is None:
        return None
    line, name = getattr(statement, "lineno", 0), one.name or "the optimizer"
    stale = f"{name} steps the old parameters, so the model is not trained"
    if target == root and _SHARDS.search(call.name):
        message = (
            f"{name} is built before {root} is sharded (line {line}): it holds the parameters from before."
        )
        return _Case(one, message, stale, statement, "order")
    if not isinstance(statement, ast.Assign):
        return None
    if target == root and call.name == "peft.get_peft_model":
        message = (
            f"{name} is built before {root} gets its adapters (line {line}): it holds the frozen base only."
        )
        return _Case(one, message, stale, statement, "order")
    if target == root and (_builds(program, call) or call.name == "torch.load"):
        message = f"{name} is built over {root}, and line {line} puts a new model in its place."
        return _Case(one, message, stale, statement, "order")
    if target.startswith(root + ".") and _weighted(program, call):
        message = f"{name} is built before {target} is replaced (line {line}): the new layer is not in it."
        return _Case(one, message, f"{target} is never trained", statement, "order")
    return None


def _rebuilt(one: Bound, root: str, statement: ast.stmt, bounds: list[Bound]) -> bool:
    """Whether a later optimizer takes over, or the change comes before any use of this one."""
    return any(
        other is not one
        and other.script is one.script
        and root in other.roots
        and (other.call.span.line, other.call.span.column) > (statement.lineno, statement.col_offset)
        for other in bounds
    )


def _used(one: Bound, statement: ast.stmt) -> bool:
    """Whether the optimizer has been at work before a statement, or is not used after it at all."""
    scope = function_of(one.script, one.call.node)
    word = re.compile(rf"(?<![\w.]){re.escape(one.name)}\b")
    schedulers = {
        call.node for call in one.script.calls if "lr_scheduler" in call.name or "sched" in call.method
    }
    later = "." in one.name
    for node in ast.walk(scope):
        if not isinstance(node, ast.Call | ast.Return) or node is one.call.node or node in schedulers:
            continue
        if node.lineno >= one.call.span.line and one.name and word.search(ast.unparse(node)):
            if node.lineno < statement.lineno:
                return True
            later = later or node.lineno > statement.lineno
    return not later


def _all_frozen(program: Program, one: Bound) -> _Case | None:
    """All parameters frozen, always, and nothing unfrozen or added."""
    if not one.whole or len(one.roots) != 1:
        return None
    root = one.roots[0]
    scope = function_of(one.script, one.call.node)
    freezes = [node for node in ast.walk(scope) if _freezes(node, root)]
    if not freezes or not follows(one.script, one.call.node, freezes[0]):
        return None
    line = getattr(freezes[0], "lineno", 0)
    for script in program.scripts:
        if re.search(
            r"requires_grad\s*=(?!=|\s*False)|requires_grad_\((?!False)|unfreeze|set_requires", script.text
        ):
            return None
    word = re.compile(rf"\b{re.escape(root)}\b")
    for node in ast.walk(scope):
        at = getattr(node, "lineno", 0)
        if isinstance(node, ast.Assign) and at >= line and word.search(ast.unparse(node.targets[0])):
            return None
        between = isinstance(node, ast.Call) and line < at < one.call.span.line
        if between and any(word.search(ast.unparse(item)) for item in getattr(node, "args", [])):
            return None
    return _Case(
        one,
        f"{one.name} holds {root}.parameters(), and line {line} froze all of them.",
        f"no parameter of {root} requires a gradient, so backward() fails or nothing is trained",
        freezes[0],
        "frozen",
    )


def _freezes(node: ast.AST, root: str) -> bool:
    if isinstance(node, ast.For) and ast.unparse(node.iter) == f"{root}.parameters()" and len(node.body) == 1:
        text = ast.unparse(node.body[0])
        return bool(re.fullmatch(r"\w+\.requires_grad = False|\w+\.requires_grad_\(False\)", text))
    return isinstance(node, ast.Expr) and ast.unparse(node) == f"{root}.requires_grad_(False)"


def _between(program: Program, bounds: list[Bound]) -> Iterator[_Case]:
    """Optimizers against the models that a training loop runs with gradients."""
    for script, loop in program.loops:
        if loop.engine is not None:
            continue
        here = [one for one in bounds if one.script is script and _steps(one, loop.calls(".step"))]
        if not here or any(not one.whole or len(one.roots) != 1 for one in here) or len(here) != len(bounds):
            continue
        scopes = Scopes(program.source, loop)
        used = {
            str(resolved(scopes, model_of(event.call), event.via)[1]): event
            for event in forwards(loop)
            if event.call is not None and not event.no_grad and not event.evaluation
        }
        roots = [one.roots[0] for one in here]
        built = {name for name in used if _constructed(program, script, name) and not _HELPERS.search(name)}
        missing = sorted(built - set(roots))
        twice = [one for index, one in enumerate(here) if one.roots[0] in roots[:index]]
        if len(missing) != 1 or _mentioned(here, missing[0]):
            continue
        name = missing[0]
        if twice:
            other = roots[0]
            message = (
                f"{twice[0].name} holds {twice[0].roots[0]}.parameters() as another optimizer does; {name}, "
            )
            message += "which the loop trains, is in none."
            yield _Case(twice[0], message, f"{name} is never trained", here[0].call.node, "other", other)
        elif len(here) == 1 and len(used) == 1 and _separate(program, script, roots[0], name):
            word = re.compile(rf"\b{re.escape(roots[0])}\b")
            if not any(word.search(event.span.text) for event in loop.events):
                message = f"{here[0].name} holds the parameters of {roots[0]}, and the loop trains {name}."
                yield _Case(here[0], message, f"{name} is never trained", used[name].node, "other", name)


def _steps(one: Bound, events: Iterator[object]) -> bool:
    last = one.name.rsplit(".", 1)[-1]
    return any(last in ast.unparse(getattr(event, "node", ast.Pass())) for event in events)


def _constructed(program: Program, script: Script, name: str) -> bool:
    """Whether a plain name is bound once, to a model that is built there."""
    values = list(assignments_to(script.tree, name))
    call = _call(script, values[0][1]) if len(values) == 1 else None
    while call is not None and call.method in {"to", "cuda", "train", "float"}:
        owner = call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
        call = _call(script, owner) if owner is not None else None
    return call is not None and (_builds(program, call) or call.name == "torch.nn.Sequential")


def _separate(program: Program, script: Script, root: str, name: str) -> bool:
    """Whether two models are built apart: neither is made of the other."""
    if not _constructed(program, script, root):
        return False
    pairs = ((root, name), (name, root))
    return not any(
        re.search(rf"\b{re.escape(other)}\b", ast.unparse(value))
        for mine, other in pairs
        for _, value in assignments_to(script.tree, mine)
    )


def _mentioned(here: list[Bound], name: str) -> bool:
    return any(re.search(rf"\b{re.escape(name)}\b", ast.unparse(one.call.node)) for one in here)


def _call(script: Script, node: ast.expr | None) -> Call | None:
    return resolved_calls(script).get(node) if isinstance(node, ast.Call) else None


def _builds(program: Program, call: Call) -> bool:
    """Whether a call makes a model with new parameters."""
    if _BUILDERS.match(call.name):
        return not call.name.endswith("from_pretrained") or bool(re.search(r"Model|For[A-Z]", call.name))
    for script in program.scripts:
        info = script.classes.get(call.method)
        if info is not None and not call.receiver:
            return any(base.startswith("torch.nn.") for base in info.bases)
    return _weighted(program, call)


def _weighted(program: Program, call: Call) -> bool:
    """Whether a layer has parameters: a known one, a Sequential with one, a module class of the program."""
    if _WEIGHTED.match(call.name):
        return True
    if call.name == "torch.nn.Sequential":
        return any(
            _WEIGHTED.match(other.name)
            for script in program.scripts
            for other in script.calls
            if any(above is call.node for above in enclosing(script, other.node))
        )
    return False
