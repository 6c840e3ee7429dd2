"""Lines of a recording in the source that was read: the statement on one, its calls, the loop around it."""

import ast
from collections.abc import Iterable, Mapping

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.line_costs import LinePlace
from gpudoctor.analysis.run.steady_run import script_at, source_of, spot
from gpudoctor.analysis.source.control_flow import FUNCTIONS, enclosing
from gpudoctor.analysis.source.syntax import nodes
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.patient import Patient
from gpudoctor.model.signs.source import Call, LoopRole, Script

_LOSSES = 3
"""Lines that give a loss its value, which are named."""


def statement_at(script: Script | None, line: int) -> ast.stmt | None:
    """The innermost statement whose own text (a compound one's head) stands on a line."""
    found = statements_on(script, line) if script is not None else []
    return found[-1] if found else None


def statements_on(script: Script, line: int) -> list[ast.stmt]:
    """The innermost statement on a line; all of them where several stand side by side."""
    return _statements(script).get(line, [])


@once
def _statements(script: Script) -> Mapping[int, list[ast.stmt]]:
    """Line to the innermost statement on it; to all of them where several stand side by side."""
    found: dict[int, list[ast.stmt]] = {}
    for node in nodes(script, ast.stmt):  # outer ones first, so the inner ones stay
        first, last = extent(node)
        for line in range(first, last + 1):
            known = found.get(line, [])
            beside = bool(known) and known[-1].lineno == node.lineno and not hasattr(known[-1], "body")
            found[line] = [*known, node] if beside else [node]
    return found


def extent(node: ast.stmt) -> tuple[int, int]:
    """First and last line of a statement's own text: of one that holds others, its head."""
    body = getattr(node, "body", None)
    if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
        return node.lineno, max(node.lineno, body[0].lineno - 1)
    return node.lineno, node.end_lineno or node.lineno


def calls_on(script: Script, whole: ast.stmt) -> list[Call]:
    """The resolved calls in a statement's own text."""
    first, last = extent(whole)
    return [call for call in _calls_by_line(script).get(first, ()) if call.span.line <= last] + [
        call for line in range(first + 1, last + 1) for call in _calls_by_line(script).get(line, ())
    ]


@once
def _calls_by_line(script: Script) -> Mapping[int, list[Call]]:
    found: dict[int, list[Call]] = {}
    for call in script.calls:
        found.setdefault(call.span.line, []).append(call)
    return found


def calling(patient: Patient, span: SourceSpan) -> list[LinePlace]:
    """Where the user's code calls the function that a line stands in, and where those who call are called.

    Empty without the source; a function that is called from many places leads nowhere.
    """
    source = source_of(patient)
    found: dict[tuple[str, int], LinePlace] = {}
    wanted = [LinePlace(path=span.path, line=span.line)]
    for _ in range(3 if source is not None else 0):
        homes = [(script_at(patient, place.path), place.line) for place in wanted]
        names = {function_at(script, line) for script, line in homes if script is not None} - {""}
        wanted = [
            LinePlace(path=script.path, line=call.span.line, function=call.function)
            for script in (source.scripts if source is not None else ())
            for call in script.calls
            if call.method in names and call.function.rpartition(".")[2] != call.method
        ]
        if len(wanted) > 4:
            break
        found |= {(place.path, place.line): place for place in wanted}
    return list(found.values())[:4]


def callers(patient: Patient, spans: Iterable[SourceSpan]) -> list[SourceSpan]:
    """The same of several lines, as evidence."""
    return [spot(patient, place) for span in spans for place in calling(patient, span)]


def function_at(script: Script, line: int) -> str:
    """The name of the innermost function around a line; "" at module level."""
    around = [
        node for node in nodes(script, ast.FunctionDef, ast.AsyncFunctionDef)
        if node.lineno <= line <= (node.end_lineno or node.lineno)
    ]  # fmt: skip
    return max(around, key=lambda node: node.lineno).name if around else ""


def inner_loop(script: Script, node: ast.stmt) -> ast.For | ast.While | None:
    """The innermost Python loop around a statement that is no loop over batches or epochs; None without one.

    In a function without any training loop each of its loops counts: it is called from the loop.
    """
    training = {loop.span.line for loop in script.loops if loop.role is not LoopRole.OTHER}
    for above in (node, *enclosing(script, node)):
        if isinstance(above, FUNCTIONS):
            return None
        if isinstance(above, ast.For | ast.While):
            return above if above.lineno not in training and not _holds(above, training) else None
    return None


def loop_heads(patient: Patient, span: SourceSpan) -> list[SourceSpan]:
    """The head of the Python loop around a line, as evidence; empty without one, or without the source."""
    script = script_at(patient, span.path)
    whole = statement_at(script, span.line)
    loop = inner_loop(script, whole) if script is not None and whole is not None else None
    if script is None or loop is None or loop.lineno == span.line:
        return []
    return [SourceSpan(path=script.path, line=loop.lineno, text=script.text_lines[loop.lineno - 1].strip())]


def heads_loop(patient: Patient, place: LinePlace) -> bool:
    """Whether a line is the head of a loop that trains or evaluates; False without the source."""
    script = script_at(patient, place.path)
    lines = {loop.span.line for loop in script.loops if loop.role is not LoopRole.OTHER} if script else set()
    return place.line in lines


def _holds(loop: ast.For | ast.While, training: Iterable[int]) -> bool:
    return any(loop.lineno <= line <= (loop.end_lineno or loop.lineno) for line in training)


def loss_lines(patient: Patient) -> list[LinePlace]:
    """Lines of the training loops that give the loss its value: three at most."""
    source = source_of(patient)
    found: dict[tuple[str, int], LinePlace] = {}
    for _, loop in source.training_loops if source is not None else ():
        roots = {
            ast.unparse(event.call.node.func.value)
            for event in loop.events
            if event.call is not None and event.call.method == "backward"
            and isinstance(event.call.node.func, ast.Attribute)
        }  # fmt: skip
        for event in loop.events:
            targets = event.node.targets if isinstance(event.node, ast.Assign) else ()
            if any(ast.unparse(target) in roots for target in targets):
                place = LinePlace(path=event.span.path, line=event.span.line)
                found.setdefault((place.path, place.line), place)
    return list(found.values())[:_LOSSES]
