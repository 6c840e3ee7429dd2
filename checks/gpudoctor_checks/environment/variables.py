"""Which value an environment variable has for a job, and who set it."""

from collections.abc import Iterator
from typing import NamedTuple

from gpudoctor.analysis.source.environment_assignments import assigned, assignments
from gpudoctor.lang import say
from gpudoctor.model import Confidence, Evidence, Patient, Unavailable
from gpudoctor.model.signs.job import Environment
from gpudoctor.model.signs.source import Source
from gpudoctor.model.unavailable import optional


class Given(NamedTuple):
    """A value and where it was read."""

    value: str
    evidence: Evidence
    where: str
    """`environment`, `job script` or `source`."""


def given(patient: Patient, name: str) -> Given | None:
    """The value of a variable: the script's own, else the job script's or the shell's; None where nobody sets it,
    or only a run tells it.

    A script's default (`setdefault`) counts only where nothing outside sets it.
    """
    environment, source = optional(lambda: patient.environment), optional(lambda: patient.source)
    own, outside = assigned(source, name), environment.get(name) if environment is not None else None
    if own is not None and not (own.default and outside is not None):
        return Given(own.value, own.span, "source") if own.value is not None else None
    if environment is None or outside is None:
        return None
    where = say("job script") if name in environment.exports else "environment"
    return Given(outside, environment.evidence(name), where)


def environment_and_source(patient: Patient) -> tuple[Environment | None, Source | None]:
    """Both that may set a variable; raises `Unavailable` where there is neither."""
    environment, source = optional(lambda: patient.environment), optional(lambda: patient.source)
    if environment is None and source is None:
        raise Unavailable(say("neither an environment nor a script was given"))
    return environment, source


class Set(NamedTuple):
    """One place that sets a variable."""

    name: str
    value: str | None
    """None where only a run tells it."""
    evidence: Evidence
    sure: Confidence
    subject: str
    conditional: bool = False


def all_set(patient: Patient) -> Iterator[Set]:
    """Every variable that the script or its environment sets; the script's own goes before one from outside."""
    environment, source = environment_and_source(patient)
    own: set[str] = set()
    for item in assignments(source) if source is not None else ():
        subject = f"{item.span.path}:{item.span.line} {item.name}"
        yield Set(item.name, item.value, item.span, Confidence.SUSPECTED, subject, item.conditional)
        if not item.default:
            own.add(item.name)
    for name, value in sorted(environment.variables.items()) if environment is not None else ():
        if environment is not None and name not in own:
            yield Set(name, value, environment.evidence(name), Confidence.CONFIRMED, name)
