"""Where a program gathers experience: the lines that step an environment, and those that act in it.

In reinforcement learning the training makes its own data between two updates. That is work of the job and no
fault in it, whatever phase the hooks charge it to: a policy that acts in eval mode looks like an evaluation.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.line_costs import LineCost, lines, ways
from gpudoctor.analysis.run.recorded_statements import extent
from gpudoctor.analysis.run.statement_effects import effect_at
from gpudoctor.analysis.run.steady_run import Run, script_at, source_of, spot
from gpudoctor.analysis.source.control_flow import FUNCTIONS, enclosing, statement
from gpudoctor.analysis.source.syntax import FunctionNode, is_attribute, nodes
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.memo import remembered
from gpudoctor.model.patient import Patient
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.recording import Process
from gpudoctor.model.signs.source import Call, ClassInfo, Script, Source

_ENVIRONMENT = re.compile(r"(?:^|[._])(?:\w{0,60}envs?|sim|simulator|game|world|arena|emulator)\d{0,9}$", re.IGNORECASE)
_CLASS = re.compile(r"Env$|^(?:gym|gymnasium|pettingzoo|dm_env)\.")
_JUDGES = re.compile(r"eval|valid|test", re.IGNORECASE)
_RETURNED = 3
"""Values that `step` of an environment gives back at least: what is seen, the reward, whether it is over."""
_EVALUATION = "evaluation"
_PHASES = ("other", "sync", _EVALUATION, "forward")
_LEAST = 0.05
"""Part of a line's time on the way to an environment below which a few looks were wrong."""
_MOSTLY = 0.5
"""Share of an evaluation on lines that act in an environment from which on it is none."""


@frozen(kw_only=False)
class _Places:
    """Lines of one script, as ranges from first to last."""

    stepping: tuple[tuple[int, int], ...]
    """The environment itself, and where it is stepped."""
    around: tuple[tuple[int, int], ...]
    """The loops and functions around that, up to an update."""


@frozen
class Experience:
    """What gathering experience takes in a recorded run."""

    share: float
    """Of step time (0..1), in all phases."""
    stepping: float
    """The part of it on lines of the environment."""
    evaluation: float
    """The part of it that the hooks took for an evaluation; 0 where most of the evaluation is one."""
    spans: tuple[SourceSpan, ...]
    """Its lines, those of the environment first, dearest first."""


def plays(patient: Patient, path: str, line: int) -> bool:
    """Whether a line gathers experience; False without the source.

    What writes, saves or collects garbage beside the environment's steps does not: it stands there by chance.
    """
    source, script = source_of(patient), script_at(patient, path)
    if source is None or script is None:
        return False
    places = _found(source)[script.path]
    if _inside(places.stepping, line):
        return True
    return _inside(places.around, line) and effect_at(script, line) is None


def gathers(patient: Patient) -> bool:
    """Whether the program steps an environment; False without the source."""
    source = source_of(patient)
    return source is not None and any(places.stepping for places in _found(source).values())


def playing_part(patient: Patient, process: Process, item: LineCost) -> float:
    """The part of a line's time (0..1) in which it gathers experience.

    A policy that acts and learns has lines that both callers share: their time goes by the caller.
    """
    if plays(patient, item.place.path, item.place.line):
        return 1.0
    found = ways(process).get((item.phase, item.place.path, item.place.line), ())
    acting = sum(way.samples for way in found if any(plays(patient, place.path, place.line) for place in way.callers))
    return min(1.0, acting / item.samples) if item.samples else 0.0


def experience(patient: Patient, run: Run) -> Experience | None:
    """What it takes, on the first rank; None where no line of the source gathers any."""
    key = ("experience", source_of(patient) is not None)
    return remembered(run.recording, key, lambda: _experience(patient, run))


def _experience(patient: Patient, run: Run) -> Experience | None:
    source = source_of(patient)
    if source is None or not any(places.stepping for places in _found(source).values()):
        return None
    sampled = lines(run.lead.process)
    shares = {phase: run.lead.share(phase) for phase in _PHASES}
    totals = {phase: sum(item.samples for item in sampled if item.phase == phase) for phase in _PHASES}
    mine: list[tuple[LineCost, float, bool]] = []
    for item in sampled:
        part = playing_part(patient, run.lead.process, item) if item.phase in _PHASES else 0.0
        if part > _LEAST:
            share = part * shares[item.phase] * item.samples / totals[item.phase]
            script = script_at(patient, item.place.path)
            stepping = script is not None and _inside(_found(source)[script.path].stepping, item.place.line)
            mine.append((item, share, stepping))
    if not mine:
        return None
    mine.sort(key=lambda one: (not one[2], -one[1]))
    acting = sum(share for item, share, _ in mine if item.phase == _EVALUATION)
    # The policy's own lines are called from those: an evaluation that mostly plays is none.
    evaluation = shares[_EVALUATION] if acting > _MOSTLY * shares[_EVALUATION] else 0.0
    return Experience(
        share=sum(share for item, share, _ in mine if item.phase != _EVALUATION) + max(evaluation, acting),
        stepping=sum(share for _, share, stepping in mine if stepping),
        evaluation=evaluation,
        spans=tuple(dict.fromkeys(spot(patient, item.place) for item, _, _ in mine)),
    )


def _inside(ranges: Iterable[tuple[int, int]], line: int) -> bool:
    return any(first <= line <= last for first, last in ranges)


@once
def _found(source: Source) -> Mapping[str, _Places]:
    """Path of each script to its places."""
    classes = [(script, info) for script in source.scripts for info in script.classes.values()]
    worlds = [(script, info) for script, info in classes if _is_world(info)]
    names = {info.name for _, info in worlds}
    found: dict[str, _Places] = {}
    for script in source.scripts:
        own = tuple(_extent_of(info) for home, info in worlds if home is script)
        calls = [call for call in script.calls if not _inside(own, call.span.line) and _steps(script, call, names)]
        # A function that tries out what was learnt is an evaluation after all.
        calls = [call for call in calls if not _JUDGES.search(call.function.rpartition(".")[2])]
        stepped = [whole for call in calls if (whole := statement(script, call.node)) is not None]
        found[script.path] = _Places(
            stepping=(*own, *(extent(whole) for whole in stepped)),
            around=tuple(around for whole in stepped for around in _around(source, script, whole)),
        )
    return found


def _is_world(info: ClassInfo) -> bool:
    """Whether a class is an environment: by its base, or because it can be stepped and reset."""
    if any(_CLASS.search(base) for base in info.bases):
        return True
    return {"step", "reset"} <= set(info.methods) and not any(base.startswith("torch.") for base in info.bases)


def _extent_of(info: ClassInfo) -> tuple[int, int]:
    last = max((method.end_lineno or method.lineno for method in info.methods.values()), default=info.span.line)
    return info.span.line, last


def _steps(script: Script, call: Call, names: set[str]) -> bool:
    """Whether a call steps an environment: by what it is called on, or by what it gives back."""
    if call.method != "step" or (call.receiver_type or "").startswith("torch."):
        return False
    if _ENVIRONMENT.search(call.receiver) or (call.receiver_type or "").rpartition(".")[2] in names:
        return True
    whole = statement(script, call.node)
    targets = whole.targets if isinstance(whole, ast.Assign) and whole.value is call.node else []
    return any(isinstance(target, ast.Tuple) and len(target.elts) >= _RETURNED for target in targets)


def _around(source: Source, script: Script, whole: ast.stmt) -> Iterator[tuple[int, int]]:
    """The widest loop or function around a statement in which nothing is learnt."""
    found: tuple[int, int] | None = None
    for above in enclosing(script, whole):
        if not isinstance(above, ast.For | ast.While | FunctionNode):
            continue
        reach = (above.lineno, above.end_lineno or above.lineno)
        if any(reach[0] <= line <= reach[1] for line in _updates(source)[script.path]):
            break
        found = reach
        if isinstance(above, FUNCTIONS):
            break
    if found is not None:
        yield found


@once
def _updates(source: Source) -> Mapping[str, tuple[int, ...]]:
    """Path of each script to its lines that learn: a backward pass, or a call of a function that runs one."""
    own = {
        script.path: tuple(node.lineno for node in nodes(script, ast.Call) if is_attribute(node.func, "backward"))
        for script in source.scripts
    }
    learners = {
        node.name
        for script in source.scripts
        for node in nodes(script, ast.FunctionDef)
        if any(node.lineno <= line <= (node.end_lineno or node.lineno) for line in own[script.path])
    }
    return {
        script.path: (
            *own[script.path],
            *(
                call.span.line
                for call in script.calls  # `train()` without what the method takes is the mode of a module
                if call.method in learners and (call.method != "train" or call.node.args)
            ),
        )
        for script in source.scripts
    }
