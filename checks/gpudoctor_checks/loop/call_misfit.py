"""LOOP013 call-misfit."""

import ast
from collections.abc import Iterator
from enum import Enum

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.source.control_flow import enclosing, holds, never_runs
from gpudoctor.analysis.source.entry_points import Program, training_programs
from gpudoctor.analysis.source.syntax import nodes
from gpudoctor.analysis.source.syntax_places import line_at
from gpudoctor.analysis.source.target_versions import has_run
from gpudoctor.lang import say
from gpudoctor.model import Check, Finding, Patient, Reads, Severity
from gpudoctor.model.signs.source import Call, Misfit, Script, Source
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import joined

_BY_THE_OBJECT = frozenset({"forward", "training_step", "validation_step", "setup", "configure_optimizers"})
"""Methods that torch and its engines call of an object that they have."""


class Runs(Enum):
    """Whether a call is reached, from what the source shows."""

    UNSEEN = 0
    SOMETIMES = 1
    ALWAYS = 2


class CallMisfit(Check):
    """A training calls its own function or class with arguments that it does not accept.

    What it finds:
        Calls of functions, constructors and class methods in the program's own files that do not fit. They omit
        a parameter without a default, name an unknown keyword, or pass too many arguments.
    Why it hurts:
        Python raises a TypeError when it reaches the call. For a call in an evaluation, that is after the
        queue, the download and the first epoch.
    How it knows:
        The call is resolved through imports to one definition, whose signature is compared with the arguments.
        Only plain functions are judged: no decorator, no `*` or `**` at the call, one definition of the name.
        Methods of objects are not judged, because a subclass may redefine them. The function that contains the
        call must itself be called. Behind a condition that the source does not decide, it is a warning. A job
        that ran shows its own exception.
    False alarms:
        A module of the same name that is imported from another folder, for example through PYTHONPATH.
    Remedies:
        Pass the missing arguments, or remove the unknown ones.
    References:
        - https://docs.python.org/3/reference/expressions.html#calls
    """

    code = "LOOP013"
    reads = frozenset({Reads.SOURCE})
    severity = Severity.ERROR
    no_rule = "only the author knows what the call should pass"

    def examine(self, patient: Patient) -> Iterator[Finding]:
        if has_run(patient):
            raise Unavailable(say("the job has run: a call that does not fit has raised its exception"))
        said: set[ast.AST] = set()
        for program in training_programs(patient.source):
            reach = _Reach(program)
            for script, call in program.calls:
                misfit = call.misfit
                if misfit is None or call.node in said or not _certain(program.source, script, call):
                    continue
                runs = reach.of(call)
                if runs is not Runs.UNSEEN:
                    said.add(call.node)
                    yield self._found(call, misfit, runs)

    def _found(self, call: Call, misfit: Misfit, runs: Runs) -> Finding:
        always = runs is Runs.ALWAYS
        return self.finding(
            say(
                "{function}() ({place}) {wrong}: the call at line {line} raises a TypeError.",
                function=misfit.name,
                place=line_at(misfit.definition, call.span),
                wrong=_wrong(misfit),
                line=call.span.line,
            ),
            evidence=(call.span, misfit.definition),
            severity=Severity.ERROR if always else Severity.WARNING,
            breaks=say("the program dies at this call") if always else None,
        )


class _Reach:
    """Whether calls of a program run, by who calls the functions that hold them."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known: dict[str, Runs] = {"": Runs.ALWAYS}

    def of(self, call: Call) -> Runs:
        """Whether a call runs: its own conditions hold, and its function is called."""
        runs = self._function(call.function)
        return Runs.SOMETIMES if runs is Runs.ALWAYS and not all(map(holds, call.guards)) else runs

    def _function(self, function: str) -> Runs:
        if function not in self._known:
            self._known[function] = Runs.UNSEEN  # what a circle of calls meets
            found = [self.of(call) for call in self._sites(function)]
            self._known[function] = max(found, default=Runs.UNSEEN, key=lambda runs: runs.value)
        return self._known[function]

    def _sites(self, function: str) -> Iterator[Call]:
        """The calls that run a function: by its name, or, of what Python and torch call, of its class."""
        owner, _, last = function.rpartition(".")
        held = last in _BY_THE_OBJECT or (last.startswith("__") and last.endswith("__"))
        wanted = owner.rpartition(".")[2] if owner and held else last
        for _, call in self._program.calls:
            if call.method == wanted and call.function != function:
                yield call


def _wrong(misfit: Misfit) -> str:
    """What does not fit, in words that follow the function's name."""
    if misfit.unknown:
        return say("has no parameter {listed}", listed=joined(misfit.unknown[:3]))
    if misfit.missing:
        return say("needs {listed}, which the call does not pass", listed=joined(misfit.missing[:3]))
    return say(
        "gets {surplus} more {argument} than it accepts",
        surplus=misfit.surplus,
        argument=say("argument") if misfit.surplus == 1 else say("arguments"),
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
    if not isinstance(root, ast.Name) or home is None:
        return False
    bound = list(_bindings(script).get(root.id, ()))
    if len(bound) != 1 or isinstance(bound[0], ast.arg | ast.Name):
        return False  # a parameter, or a name for one of several
    top = misfit.name.partition(".")[0]
    last = misfit.name.rpartition(".")[2]
    return len(_bindings(home).get(top, ())) == 1 and not any(last in _patched(item) for item in source.scripts)


@once
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


@once
def _patched(script: Script) -> frozenset[str]:
    """Attributes that are set from outside: `helpers.build = mine`."""
    return frozenset(
        node.attr
        for node in nodes(script, ast.Attribute)
        if not isinstance(node.ctx, ast.Load) and ast.unparse(node.value) != "self"
    )
