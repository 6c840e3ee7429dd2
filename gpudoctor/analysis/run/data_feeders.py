"""Processes and threads of the program's own that make what the training takes from a queue or a pipe.

A DataLoader's workers are known by its arguments; those that a program starts itself only its source shows.
"""

import ast
from collections.abc import Iterable

from gpudoctor.analysis.run.recorded_statements import calls_on, statement_at
from gpudoctor.analysis.run.steady_run import script_at, source_of
from gpudoctor.analysis.source.syntax import last_name
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.patient import Patient
from gpudoctor.model.signs.source import Script, Source

_TAKES = frozenset({"get", "recv", "recv_bytes"})
"""Methods of queues and pipes that wait until there is something."""
_QUEUES = frozenset({"Queue", "SimpleQueue", "JoinableQueue", "PriorityQueue", "Pipe"})
"""What makes one, by the last part of its name: of `multiprocessing`, its contexts, `queue`."""
_STARTS = frozenset({"Process", "Thread"})


def feeders(patient: Patient, places: Iterable[SourceSpan]) -> list[SourceSpan]:
    """The functions that fill the queue which one of these lines takes from, by their first lines.

    Empty where none of the lines takes anything, where no queue is made, and without the source.
    """
    source = source_of(patient)
    if source is None or not any(_takes(patient, place) for place in places) or not _queued(source):
        return []
    found: dict[tuple[str, int], SourceSpan] = {}
    for script in source.scripts:
        for call in script.calls:
            if call.method in _STARTS:
                for keyword in call.node.keywords:
                    if keyword.arg == "target":
                        found |= {(span.path, span.line): span for span in _functions(source, keyword.value)}
        found |= {(span.path, span.line): span for span in _runs(script)}
    return list(found.values())


def _takes(patient: Patient, place: SourceSpan) -> bool:
    """Whether a line waits for a queue: `queue.get()`, `pipe.recv()`; `table.get(key)` does not."""
    script = script_at(patient, place.path)
    whole = statement_at(script, place.line) if script is not None else None
    if script is None or whole is None:
        return False
    return any(
        call.method in _TAKES and bool(call.receiver) and not _keyed(call.node)
        for call in calls_on(script, whole)
    )


def _keyed(node: ast.Call) -> bool:
    """Whether a call is given something to look up: not `block` or `timeout`, which are a bool and a number."""
    first = node.args[0] if node.args else None
    return first is not None and not (
        isinstance(first, ast.Constant) and isinstance(first.value, bool | int | float)
    )


def _queued(source: Source) -> bool:
    return any(call.method in _QUEUES for script in source.scripts for call in script.calls)


def _functions(source: Source, target: ast.expr) -> Iterable[SourceSpan]:
    name = last_name(target)
    for script in source.scripts:
        for node in ast.walk(script.tree):
            if isinstance(node, ast.FunctionDef) and node.name == name:
                yield script.span(node)


def _runs(script: Script) -> Iterable[SourceSpan]:
    """`run` of classes that are processes or threads themselves."""
    for node in ast.walk(script.tree):
        if isinstance(node, ast.ClassDef) and any(last_name(base) in _STARTS for base in node.bases):
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and item.name == "run":
                    yield script.span(item)
