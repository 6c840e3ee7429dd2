"""What a recording has seen, where the source says it: the call that made a loader."""

from gpudoctor.model.evidence import SourceSpan
from gpudoctor.model.patient import Patient
from gpudoctor.model.reading.loaders import Loader, loaders
from gpudoctor.model.reading.recordings.costs import Place
from gpudoctor.model.reading.recordings.judged import script_at, source_of, spot
from gpudoctor.model.signs.source import Known


def written_loader(patient: Patient, place: Place | None) -> Loader | None:
    """The call of the source that made the loader of a place; None where no source has it."""
    source = source_of(patient)
    if source is None or place is None:
        return None
    script = script_at(patient, spot(patient, place).path, place.path)
    for loader in loaders(source):
        call = loader.call.node
        if loader.script is script and call.lineno <= place.line <= (call.end_lineno or call.lineno):
            return loader
    return None


def loader_spans(patient: Patient, place: Place | None) -> list[SourceSpan]:
    """Where a loader was made, with the call's column where the source has it."""
    made = written_loader(patient, place)
    if made is not None:
        return [made.call.span]
    return [spot(patient, place)] if place is not None else []


def loader_facts(
    patient: Patient, place: Place | None, *keywords: str
) -> tuple[tuple[str, float | int | str | bool], ...]:
    """For a rule: whether an edit may set the keywords there, and the option that the workers come from."""
    made = written_loader(patient, place)
    if made is None:
        return (("engine", False), ("settable", False))
    option = made.workers.origin if isinstance(made.workers, Known) else ""
    return (("engine", made.engine), ("settable", made.settable(*keywords)), ("option", option))
