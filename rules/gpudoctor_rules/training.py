"""Rules on the topic training: the edits of what a run has shown. Their texts are the rows of `training.toml`."""

import ast
from collections.abc import Callable, Iterator, Mapping

from gpudoctor.analysis import of_run
from gpudoctor.analysis.source.control_flow import enclosing, statement
from gpudoctor.analysis.source.syntax import FunctionNode, keyword_value, last_name, nodes, segment
from gpudoctor.analysis.source.syntax_edits import alone, bare_call, insert_after, replace_node
from gpudoctor.analysis.source.syntax_places import resolved_calls
from gpudoctor.analysis.workload import scripts_given
from gpudoctor.model import Applicability, Edit, Finding, Patient, Remedy, answers
from gpudoctor.model.evidence import Measurement
from gpudoctor.model.records import replace
from gpudoctor.model.remedy import ImportEdit
from gpudoctor.model.signs.source import Call, Script
from gpudoctor_rules.advice import advice
from gpudoctor_rules.remedies import keyword_edit, script_of, source_places


@answers("TRAIN004", "TRAIN005", "TRAIN007", "TRAIN008", "TRAIN009")
def with_edits(finding: Finding, patient: Patient) -> Iterator[Remedy]:
    """The row's remedy with its edit, where the source has one place for it; the row alone follows otherwise."""
    for row in advice("training"):
        known = row.answer(finding) if row.code == finding.code else None
        if known is not None and known.id in _EDITS:
            edits = tuple(_EDITS[known.id](finding, patient))
            if edits:
                yield replace(known, edits=edits, applicability=Applicability.UNSAFE)


def _only_call(patient: Patient, name: str, owner: str = "") -> tuple[Script, Call] | None:
    """The only call of a method (of an owner with that last name) or of a function in the scripts that were given."""
    found = [
        (script, call)
        for script in scripts_given(patient).scripts
        for call in script.calls
        if name in {call.method, call.name.rpartition(".")[2]} and owner in {"", call.receiver.rpartition(".")[2]}
    ]
    return found[0] if len(found) == 1 else None


def _reset(_: Finding, patient: Patient) -> Iterator[Edit]:
    """After the only `compute()` that is a statement of its own."""
    found = _only_call(patient, "compute")
    if found is not None:
        whole = bare_call(found[0], found[1].node)
        if whole is not None:
            yield insert_after(found[0], whole, f"{found[1].receiver}.reset()")


def _trainable(_: Finding, patient: Patient) -> Iterator[Edit]:
    """In the only call that loads an adapter."""
    found = _only_call(patient, "from_pretrained", "PeftModel")
    if found is not None and not found[1].open_ended:
        yield keyword_edit(found[1].span, (("is_trainable", "True"),), method=found[1].method)


def _divided(finding: Finding, patient: Patient) -> Iterator[Edit]:
    """Where the only `backward()` of the program runs, by the number of micro batches that was counted."""
    found = _only_call(patient, "backward")
    micro = _measured(finding)
    if found is not None and micro > 1:
        script, call = found
        whole = statement(script, call.node)
        if isinstance(whole, ast.Expr) and whole.value is call.node and isinstance(call.node.func, ast.Attribute):
            loss = call.node.func.value
            if not call.node.args and not call.node.keywords:
                yield replace_node(script, loss, f"({segment(script, loss)} / {micro})")


def _measured(finding: Finding) -> int:
    """The number that the check counted."""
    values = [item.value for item in finding.evidence if isinstance(item, Measurement)]
    return round(float(values[0])) if values else 0


_PLACES = {"CosineAnnealingLR": ("T_max", 1), "OneCycleLR": ("total_steps", 2), "PolynomialLR": ("total_iters", 1)}
"""The length of a schedule: its name, and its place where it is given without. Source: signatures of torch 2.4 to
2.13 and of `transformers.optimization`."""
_WARMED = ("num_training_steps", 2)
_NESTED = {"SequentialLR", "ChainedScheduler"}


def _long_enough(finding: Finding, patient: Patient) -> Iterator[Edit]:
    """The number of calls that was counted, in the one call that makes the schedule.

    A run that was stopped has not counted them all.
    """
    for place in source_places(finding)[:1] if of_run.ended(patient.recording) else ():
        script = script_of(patient, place)
        for node in nodes(script, ast.stmt) if script is not None else ():
            within = node.lineno <= place.line <= (node.end_lineno or node.lineno)
            calls = [item for item in ast.walk(node) if isinstance(item, ast.Call)] if within else []
            made = [item for item in calls if _length(last_name(item.func)) is not None]
            if script is None or hasattr(node, "body") or len(made) != 1:
                continue
            name, at = _length(last_name(made[0].func)) or _WARMED
            given = keyword_value(made[0], name) or next(iter(made[0].args[at:]), None)
            if given is not None and not _NESTED & {last_name(item.func) for item in calls}:
                yield replace_node(script, given, str(_measured(finding)))


def _length(name: str) -> tuple[str, int] | None:
    return _WARMED if name.endswith("_schedule_with_warmup") else _PLACES.get(name)


def _other_mode(_: Finding, patient: Patient) -> Iterator[Edit]:
    """The other word, in the only call."""
    found = _only_call(patient, "ReduceLROnPlateau")
    if found is not None and len(found[1].positional) < 2 and not found[1].open_ended:
        mode = keyword_value(found[1].node, "mode") or ast.Constant("min")
        if isinstance(mode, ast.Constant):
            other = '"max"' if mode.value == "min" else '"min"'
            yield keyword_edit(found[1].span, (("mode", other),), method=found[1].method)


def _copied(finding: Finding, patient: Patient) -> Iterator[Edit]:
    """Where the state that is loaded was kept."""
    for script, node in _loaded(finding, patient):
        given = node.args[0] if node.args else None
        for kept in nodes(script, ast.Assign) if isinstance(given, ast.Name) else ():
            names = {item.id for item in kept.targets if isinstance(item, ast.Name)}
            states = [item for item in ast.walk(kept.value) if _owner(script, item)]
            if isinstance(given, ast.Name) and given.id in names and len(states) == 1:
                yield replace_node(script, kept.value, f"copy.deepcopy({ast.unparse(states[0])})")
                if script.imports.get("copy") != "copy":
                    yield ImportEdit(path=script.path, statement="import copy")


def _loaded(finding: Finding, patient: Patient) -> Iterator[tuple[Script, ast.Call]]:
    """The `load_state_dict` in the finding's line."""
    for place in source_places(finding)[:1]:
        script = script_of(patient, place)
        for node in nodes(script, ast.Call) if script is not None else ():
            if script is not None and node.lineno == place.line and last_name(node.func) == "load_state_dict":
                yield script, node


def _owner(script: Script, node: ast.AST) -> str | None:
    """`net` of `net.state_dict()`; None for anything else."""
    call = resolved_calls(script).get(node)
    return call.receiver if call is not None and call.method == "state_dict" else None


def _taken_up(finding: Finding, patient: Patient) -> Iterator[Edit]:
    """After the model's state, that of the object which the same program saves under a key of the same dict."""
    part = finding.subject[:5]
    for script, node in _loaded(finding, patient):
        given, whole = node.args[0] if node.args else None, bare_call(script, node)
        if not isinstance(given, ast.Subscript) or whole is None or not alone(script, whole):
            continue
        known = _names_before(script, whole)
        pairs = [pair for saved in nodes(script, ast.Dict) for pair in zip(saved.keys, saved.values, strict=True)]
        states = {
            (key.value, owner)
            for key, value in pairs
            if isinstance(key, ast.Constant) and part in str(key.value) and (owner := _owner(script, value)) in known
        }
        for key, owner in states if len(states) == 1 else ():
            yield insert_after(script, whole, f"{owner}.load_state_dict({segment(script, given.value)}[{key!r}])")


def _names_before(script: Script, whole: ast.stmt) -> set[str]:
    """The names that the function of a statement has been given, or has assigned, before it."""
    home = next((node for node in enclosing(script, whole) if isinstance(node, FunctionNode)), script.tree)
    names = {node.arg for node in ast.walk(home) if isinstance(node, ast.arg)}
    return names | {
        node.id
        for node in ast.walk(home)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.lineno < whole.lineno
    }


_EDITS: Mapping[str, Callable[[Finding, Patient], Iterator[Edit]]] = {
    "TRAIN004-metric": _reset,
    "TRAIN005-adapter": _trainable,
    "TRAIN007-undivided": _divided,
    "TRAIN008-total": _long_enough,
    "TRAIN008-plateau": _other_mode,
    "TRAIN009-own": _copied,
    "TRAIN009-optimizer": _taken_up,
    "TRAIN009-schedule": _taken_up,
}
