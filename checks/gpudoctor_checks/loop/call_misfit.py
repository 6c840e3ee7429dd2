"""LOOP013 call-misfit."""

import ast
from collections.abc import Iterator

from gpudoctor.analysis.source.control_flow import enclosing, never_runs
from gpudoctor.analysis.source.entry_points import by_script, training_programs
from gpudoctor.analysis.source.syntax import nodes
from gpudoctor.analysis.source.syntax_places import line_at
from gpudoctor.analysis.source.target_versions import has_run
from gpudoctor.model import Check, Code, Confidence, Cost, Finding, Patient, Reads, Severity
from gpudoctor.model.signs.source import Call, GuardKind, Known, Misfit, Script, Source


class CallMisfit(Check):
    """A training calls its own function or class with arguments that it does not take.

    What it finds:
        Calls of functions, constructors and class methods of the program's own files that leave out a
        parameter without a default, name a keyword that is no parameter, or give more arguments than there
        are places.
    Why it hurts:
        Python raises a TypeError when it gets there: after the queue, the download and the first epoch, where
        the call is an evaluation's.
    How it knows:
        The call is resolved through imports to one definition, whose head is compared with the arguments.
        Only plain functions are judged: no decorator, no `*` or `**` at the call, one definition of the name.
        Methods of objects are left out, for a subclass may define them otherwise. Behind a condition that the
        source does not settle it is a warning. Of a job that ran, its own exception tells.
    False alarms:
        A module of the same name that is imported from another folder, through PYTHONPATH, say.
    Remedies:
        Give what is missing, or leave out what the function does not know.
    References:
        - https://docs.python.org/3/reference/expressions.html#calls
    """

    code = Code("LOOP013")
    name = "call-misfit"
    reads = frozenset({Reads.SOURCE})
    severity = Severity.ERROR
    no_rule = "only the author knows what the call was meant to give"

    def examine(self, patient: Patient) -> Iterator[Finding]:
        said: set[ast.AST] = set()
        if has_run(patient):
            return  # a run that came to the call died there, and shows its exception
        for program in training_programs(patient.source):
            for script, call in program.calls:
                if call.misfit is not None and call.node not in said and _certain(program.source, script, call):
                    said.add(call.node)
                    yield self._found(script, call, call.misfit)

    def _found(self, script: Script, call: Call, misfit: Misfit) -> Finding:
        always = all(_holds(guard.kind, guard.value) for guard in call.guards)
        return self.finding(
            f"{misfit.name}() ({line_at(misfit.definition, call.span)}) {_wrong(misfit)}: the call at line "
            f"{call.span.line} raises a TypeError.",
            evidence=(call.span, misfit.definition),
            confidence=Confidence.SUSPECTED,
            severity=Severity.ERROR if always else Severity.WARNING,
            cost=Cost(breaks="the program dies at this call") if always else None,
            subject=f"{script.path}:{call.span.line}",
        )


def _wrong(misfit: Misfit) -> str:
    """What does not fit, in words that follow the function's name."""
    if misfit.unknown:
        return f"has no parameter {_listed(misfit.unknown)}"
    if misfit.missing:
        return f"needs {_listed(misfit.missing)}, which it does not get"
    return f"gets {misfit.surplus} more {'argument' if misfit.surplus == 1 else 'arguments'} than it takes"


def _listed(names: tuple[str, ...]) -> str:
    shown = names[:3]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def _holds(kind: GuardKind, value: object) -> bool:
    return kind is GuardKind.RANK or (
        kind is GuardKind.SWITCH and isinstance(value, Known) and bool(value.value)
    )


def _certain(source: Source, script: Script, call: Call) -> bool:
    """Whether the name that is called can only be the definition that was found, and the call may run."""
    misfit = call.misfit
    if misfit is None or never_runs(source, call):
        return False
    if any(isinstance(outer, ast.Try) for outer in enclosing(script, call.node)):
        return False  # it may be tried on purpose
    root = call.node.func
    while isinstance(root, ast.Attribute):
        root = root.value
    home = next((item for item in source.scripts if item.path == misfit.definition.path), None)
    if not isinstance(root, ast.Name) or home is None or len(_bindings(script).get(root.id, ())) != 1:
        return False
    top = misfit.name.partition(".")[0]
    last = misfit.name.rpartition(".")[2]
    return len(_bindings(home).get(top, ())) == 1 and not any(last in _patched(item) for item in source.scripts)


@by_script
def _bindings(script: Script) -> dict[str, set[object]]:
    """What binds each name, anywhere in the file; two imports of one thing are one."""
    found: dict[str, set[object]] = {}
    for node in nodes(script, ast.Name):
        if not isinstance(node.ctx, ast.Load):
            found.setdefault(node.id, set()).add(node)
    for item in nodes(script, ast.arg):
        found.setdefault(item.arg, set()).add(item)
    for definition in nodes(script, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef):
        found.setdefault(definition.name, set()).add(definition)
    for statement in nodes(script, ast.Import, ast.ImportFrom):
        home = f"{statement.level}{statement.module}" if isinstance(statement, ast.ImportFrom) else ""
        for alias in statement.names:
            name = (alias.asname or alias.name).partition(".")[0]
            found.setdefault(name, set()).add((home, alias.name))
    return found


@by_script
def _patched(script: Script) -> frozenset[str]:
    """Attributes that are set from outside: `helpers.build = mine`."""
    return frozenset(
        node.attr
        for node in nodes(script, ast.Attribute)
        if not isinstance(node.ctx, ast.Load) and ast.unparse(node.value) != "self"
    )
