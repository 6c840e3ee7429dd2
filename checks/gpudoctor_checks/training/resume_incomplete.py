"""TRAIN009: a run that goes on with another one leaves a part of its state behind."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import demanded, measured, spots
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Cost, Detail, Finding, Patient, Reads, Severity
from gpudoctor.model.records import frozen

if TYPE_CHECKING:
    from gpudoctor.analysis.run.training.resumed import Resumed, Weights


@frozen
class ResumeIncompleteDetail(Detail):
    """What the rule reads."""

    part: str
    """`weights`, `optimizer`, `unused`, `schedule`."""


class ResumeIncomplete(Check):
    """A resumed run does not take up the whole state of the run before.

    What it finds:
        In a recorded run:
        - `load_state_dict(strict=False)` that matches no name, or names that differ by their beginning alone
        - a model that is given its own weights, because nothing of the file fitted
        - an optimizer's state that was in the file, and that nothing loaded
        - an optimizer's state that was loaded into an optimizer that makes no step
        - a schedule that begins afresh
    Why it hurts:
        Weights that were not loaded are random, and nothing says so. Without its state Adam makes its largest
        steps at once. A new warm-up or peak undoes what was learned. The loss jumps.
    How it knows:
        Hooks on `torch.load`, on `load_state_dict` and on a Trainer's resume read names and counts. A run goes
        on with another if it loads its optimizer, or writes the file that it has read.
    False alarms:
        Fine-tuning from weights without the optimizer's state is not reported.
    Remedies:
        Save and load model, optimizer, scheduler and scaler together.
    References:
        - https://docs.pytorch.org/tutorials/recipes/recipes/saving_and_loading_a_general_checkpoint.html
        - https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.load_state_dict
    """

    code = Code("TRAIN009")
    name = "resume-incomplete"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.WARNING

    def examine(self, patient: Patient) -> Iterator[Finding]:
        """One finding a part."""
        from gpudoctor.analysis.run.line_costs import LinePlace
        from gpudoctor.analysis.run.training.resumed import resumed

        demanded(patient, 1)
        found = resumed(patient.recording)
        for part, said, value, (path, line), lost in _parts(found) if found is not None else ():
            place = LinePlace(path=path, line=line) if path and line else None
            yield confirmed(
                self,
                (),
                said,
                evidence=(*spots(patient, place), measured(f"{part}_state", value, "1", patient.recording)),
                severity=Severity.ERROR if lost else Severity.WARNING,
                cost=Cost(breaks=say("the weights of the file are not used") if lost else None),
                subject=part,
                detail=ResumeIncompleteDetail(part=part),
            )


def _parts(found: "Resumed") -> Iterator[tuple[str, str, float, tuple[Any, Any], bool]]:
    """Part, message, number, place, and whether that surely breaks the run."""
    at: tuple[Any, Any] = (None, None)
    for item in found.weights:
        at = (item.path, item.line)
        if said := _weights(item, bool(found.held)):
            yield "weights", said, item.matched, at, not item.matched or item.own == item.given
    given = found.optimizer
    if found.goes_on and found.optimizer_lost:
        name, many = found.held["optimizer"]
        said = say(
            "The optimizer begins afresh: {name} holds its state of {many:.0f} parameters, unused.",
            name="/".join(name.split("/")[-2:]),
            many=many,
        )
        yield "optimizer", said, many, at, False
    if found.used is False:
        said = say("The optimizer's state was loaded into an optimizer that makes no step.")
        yield "unused", said, given.get("entries") or 0, (given.get("path"), given.get("line")), False
    if found.schedule_lost and found.schedule is not None:
        place, rates = found.schedule.record, found.schedule.rates
        first, was = rates[0][1] if rates else 0.0, given.get("rate")
        then = say(", and was {rate:.2g} in the file", rate=was) if was else ""
        said = say(
            "The schedule begins afresh after {steps:.0f} steps: the rate is {first:.2g}{was}.",
            steps=found.steps,
            first=first,
            was=then,
        )
        yield "schedule", said, first, (place.get("path"), place.get("line")), False


def _weights(item: "Weights", read: bool) -> str:
    """What one load of weights left out that nobody leaves out on purpose; "" where there is none."""
    names = say(": {wanted} is wanted, {found} is given", wanted=item.wanted, found=item.found) if item.wanted else ""
    if item.missing and (item.renamed or not item.matched):
        return say(
            "load_state_dict(strict=False) of {model} took {matched} of {given} tensors{names}.",
            model=item.model,
            matched=item.matched,
            given=item.given,
            names=names,
        )
    if item.own == item.given and item.given > 1 and read:
        return say(
            "load_state_dict() gave {model} its own {given} tensors: none is from the file.",
            model=item.model,
            given=item.given,
        )
    return ""
