"""Who makes the batches of a recorded run, by its source: the call that made a loader, own processes."""

import ast
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpudoctor.analysis.run.line_costs import LinePlace, place_of
from gpudoctor.analysis.run.recorded_statements import calls_on, statement_at
from gpudoctor.analysis.run.steady_run import processes, script_at, source_of, spot
from gpudoctor.analysis.source.loaders import Loader, every_loader, made_to_train
from gpudoctor.analysis.source.syntax import last_name, walk
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.patient import Patient
from gpudoctor.model.signs.recording import Record
from gpudoctor.model.signs.source import Known, Script, Source, Value

RUN = "in this run"
"""Origin of a value that a recording shows and the source does not."""
_RECORDED = {
    "num_workers": "workers",
    "pin_memory": "pin_memory",
    "persistent_workers": "persistent",
    "prefetch_factor": "prefetch",
    "batch_size": "batch_size",
}


def loaders_as_run(patient: Patient) -> tuple[Loader, ...]:
    """Every loader of the source; where a run was recorded, with the arguments that it had there.

    A default may be overridden by an option that the source does not show, so the recording goes before it.
    """
    found = every_loader(patient.source)
    records = [item for process in processes(patient) for item in process.of("loader")]
    if not records:
        return found
    made: dict[int, Record] = {}
    for item in records:
        loader = written_loader(patient, place_of(item))
        if loader is None:
            continue
        former = made.get(id(loader))
        # One line may make several loaders: the one that trains counts, then the last.
        if former is None or former.get("role") != "training" or item.get("role") == "training":
            made[id(loader)] = item
    return tuple(replace(loader, ran=_arguments(made.get(id(loader)))) for loader in found)


def training_loaders(patient: Patient) -> tuple[Loader, ...]:
    """The loaders of programs that train, as they ran; what ran need not be told from the source."""
    found = loaders_as_run(patient)
    return tuple(item for item in found if item.ran is not None or made_to_train(patient.source, item))


def _arguments(item: Record | None) -> dict[str, Value]:
    seen: dict[str, Value] = {}
    for keyword, field in _RECORDED.items() if item is not None else ():
        value = item.get(field) if item is not None else None
        if isinstance(value, int) or field == "prefetch":
            seen[keyword] = Known(value=value, origin=RUN)
    return seen


def written_loader(patient: Patient, place: LinePlace | None) -> Loader | None:
    """The call of the source that made the loader of a place; None where no source has it."""
    source = source_of(patient)
    if source is None or place is None:
        return None
    script = script_at(patient, spot(patient, place).path, place.path)
    for loader in every_loader(source):
        call = loader.call.node
        if loader.script is script and call.lineno <= place.line <= (call.end_lineno or call.lineno):
            return loader
    return None


def loader_spans(patient: Patient, place: LinePlace | None) -> list[SourceSpan]:
    """Where a loader was made, with the call's column where the source has it."""
    made = written_loader(patient, place)
    if made is not None:
        return [made.call.span]
    return [spot(patient, place)] if place is not None else []


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderCall:
    """The call that makes a recorded loader; without a call that the source shows, nothing may be set."""

    engine: bool = False
    """A trainer makes the loader, from arguments of its own."""
    settable: bool = False
    """An edit may set the keywords."""
    option: str | None = None
    """The option that the number of workers comes from; None where no call was seen."""
    chosen: str | None = None
    """What the program calls the number of workers."""


def loader_call(patient: Patient, place: LinePlace | None, *keywords: str) -> LoaderCall:
    """For a rule: whether an edit may set the keywords there, and the option that the workers come from."""
    made = written_loader(patient, place)
    if made is None:
        return LoaderCall()
    option = made.workers.origin if isinstance(made.workers, Known) else ""
    return LoaderCall(
        engine=made.engine, settable=made.settable(*keywords), option=option, chosen=made.chosen("num_workers")
    )


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
        call.method in _TAKES and bool(call.receiver) and not _keyed(call.node) for call in calls_on(script, whole)
    )


def _keyed(node: ast.Call) -> bool:
    """Whether a call is given something to look up: not `block` or `timeout`, which are a bool and a number."""
    first = node.args[0] if node.args else None
    return first is not None and not (isinstance(first, ast.Constant) and isinstance(first.value, bool | int | float))


def _queued(source: Source) -> bool:
    return any(call.method in _QUEUES for script in source.scripts for call in script.calls)


def _functions(source: Source, target: ast.expr) -> Iterable[SourceSpan]:
    name = last_name(target)
    for script in source.scripts:
        for node in walk(script.tree):
            if isinstance(node, ast.FunctionDef) and node.name == name:
                yield script.span(node)


def _runs(script: Script) -> Iterable[SourceSpan]:
    """`run` of classes that are processes or threads themselves."""
    for node in walk(script.tree):
        if isinstance(node, ast.ClassDef) and any(last_name(base) in _STARTS for base in node.bases):
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and item.name == "run":
                    yield script.span(item)
