"""Where a program gathers experience: the lines that step an environment, and the loops around them.

In reinforcement learning the training makes its own data between two updates. That is work of the job and no
fault in it.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.recorded_statements import extent
from gpudoctor.analysis.run.statement_effects import effect_at
from gpudoctor.analysis.run.steady_run import script_at, source_of
from gpudoctor.analysis.source.control_flow import FUNCTIONS, enclosing, statement
from gpudoctor.analysis.source.syntax import FunctionNode, is_attribute, nodes
from gpudoctor.model.patient import Patient
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.source import Call, Script, Source

_ENVIRONMENT = re.compile(r"(?:^|[._])(?:\w{0,60}envs?|sim|simulator|game|world|arena|emulator)\d{0,9}$", re.IGNORECASE)
_JUDGES = re.compile(r"eval|valid|test", re.IGNORECASE)
_RETURNED = 3
"""Values that `step` of an environment gives back at least: what is seen, the reward, whether it is over."""


@frozen(kw_only=False)
class _Places:
    """Lines of one script, as ranges from first to last."""

    stepping: tuple[tuple[int, int], ...]
    """Where an environment is stepped."""
    around: tuple[tuple[int, int], ...]
    """The loops and functions around that, up to an update."""


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


def _inside(ranges: Iterable[tuple[int, int]], line: int) -> bool:
    return any(first <= line <= last for first, last in ranges)


@once
def _found(source: Source) -> Mapping[str, _Places]:
    """Path of each script to its places."""
    found: dict[str, _Places] = {}
    for script in source.scripts:
        # A function that tries out what was learnt is an evaluation after all.
        calls = [call for call in script.calls if _steps(script, call) and not _JUDGES.search(call.function)]
        stepped = [whole for call in calls if (whole := statement(script, call.node)) is not None]
        found[script.path] = _Places(
            stepping=tuple(extent(whole) for whole in stepped),
            around=tuple(around for whole in stepped for around in _around(script, whole)),
        )
    return found


def _steps(script: Script, call: Call) -> bool:
    """Whether a call steps an environment: by what it is called on, or by what it gives back."""
    if call.method != "step" or (call.receiver_type or "").startswith("torch."):
        return False
    if _ENVIRONMENT.search(call.receiver):
        return True
    whole = statement(script, call.node)
    targets = whole.targets if isinstance(whole, ast.Assign) and whole.value is call.node else []
    return any(isinstance(target, ast.Tuple) and len(target.elts) >= _RETURNED for target in targets)


def _around(script: Script, whole: ast.stmt) -> Iterator[tuple[int, int]]:
    """The widest loop or function around a statement in which no backward pass runs."""
    updates = [node.lineno for node in nodes(script, ast.Call) if is_attribute(node.func, "backward")]
    found: tuple[int, int] | None = None
    for above in enclosing(script, whole):
        if not isinstance(above, ast.For | ast.While | FunctionNode):
            continue
        reach = (above.lineno, above.end_lineno or above.lineno)
        if any(reach[0] <= line <= reach[1] for line in updates):
            break
        found = reach
        if isinstance(above, FUNCTIONS):
            break
    if found is not None:
        yield found
