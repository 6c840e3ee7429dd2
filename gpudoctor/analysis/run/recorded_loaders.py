"""Who makes the batches of a recorded run, by its source: the call that made a loader."""

from gpudoctor.analysis.run.line_costs import LinePlace, place_of
from gpudoctor.analysis.run.steady_run import processes, script_at, source_of, spot
from gpudoctor.analysis.source.loaders import Loader, every_loader
from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.patient import Patient
from gpudoctor.model.records import frozen, replace
from gpudoctor.model.signs.recording import Record
from gpudoctor.model.signs.source import Known, Value

RUN = "in this run"
"""Origin of a value that a recording shows and the source does not."""
_RECORDED = {
    "num_workers": "workers",
    "pin_memory": "pin_memory",
    "persistent_workers": "persistent",
    "prefetch_factor": "prefetch",
    "batch_size": "batch_size",
}


def as_run(patient: Patient, found: tuple[Loader, ...]) -> tuple[Loader, ...]:
    """Loaders of the source with the arguments that they had in the recorded run."""
    made: dict[int, Record] = {}
    for item in (item for process in processes(patient) for item in process.of("loader")):
        loader = written_loader(patient, place_of(item))
        if loader is None:
            continue
        former = made.get(id(loader))
        # One line may make several loaders: the one that trains counts, then the last.
        if former is None or former.get("role") != "training" or item.get("role") == "training":
            made[id(loader)] = item
    return tuple(replace(loader, ran=_arguments(made.get(id(loader)))) for loader in found)


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


def trainer_arguments(patient: Patient) -> Loader | None:
    """The arguments by which a trainer makes the loaders that no call of the program makes; None of several."""
    source = source_of(patient)
    found = [loader for loader in every_loader(source) if loader.engine] if source is not None else []
    return found[0] if len(found) == 1 else None


def loader_spans(patient: Patient, place: LinePlace | None) -> list[SourceSpan]:
    """Where a loader was made, with the call's column where the source has it."""
    made = written_loader(patient, place) or trainer_arguments(patient)
    if made is not None:
        return [made.call.span]
    return [spot(patient, place)] if place is not None else []


@frozen
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
    made = written_loader(patient, place) or trainer_arguments(patient)
    if made is None:
        return LoaderCall()
    option = made.workers.origin if isinstance(made.workers, Known) else ""
    return LoaderCall(
        engine=made.engine, settable=made.settable(*keywords), option=option, chosen=made.chosen("num_workers")
    )
