"""TRAIN009: a run that goes on with another one leaves a part of its state behind."""

from collections.abc import Iterator

from gpudoctor.analysis.run.steady_run import demanded
from gpudoctor.analysis.run.training import told
from gpudoctor.lang import say, term
from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity


class ResumeIncomplete(Check):
    """A resumed run does not take up the whole state of the run before.

    What it finds:
        In a recorded run:
        - `load_state_dict(strict=False)` that takes less than half of what it is given
        - `load_state_dict` that is given the model's own tensors: the best state was kept without a copy
        - the state of an optimizer or a schedule that a checkpoint holds and nothing loads
        - an epoch that was left in its midst and is read from its start
    Why it hurts:
        Weights that were not loaded are random, and nothing says so. Without its state Adam makes its largest
        steps at once, and a new warm-up or peak undoes what was learned.
    How it knows:
        Hooks on `torch.load` and `load_state_dict` read names and counts. A run continues another if it takes
        up a state of it or writes the file that it read. Numbers in the name may differ.
    False alarms:
        Fine-tuning that writes its checkpoints to another place is not reported.
    Remedies:
        Save and load model, optimizer, scheduler and scaler together. Copy a state that is kept in memory.
    References:
        - https://docs.pytorch.org/tutorials/recipes/recipes/saving_and_loading_a_general_checkpoint.html
    """

    code = Code("TRAIN009")
    name = "resume-incomplete"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.WARNING
    judges = "resumed"

    def examine(self, patient: Patient) -> Iterator[Finding]:
        """One finding a part."""
        from gpudoctor.analysis.run.line_costs import LinePlace, place_of
        from gpudoctor.analysis.run.training.resumed import resumed

        demanded(patient, 1)
        found = resumed(patient.recording)
        if found is None:
            return
        at = place_of(found.schedule.record) if found.schedule is not None else None
        for model, given, missing, unexpected, wanted, other, path, line, *more in found.weights:
            at = LinePlace(path=path, line=line) if path and line else None
            own = sum(more)
            if 2 * own > given:
                said = say(
                    "load_state_dict of {model} is given {own} of the model's own tensors, and changes nothing. A "
                    "state_dict() that nobody copied goes on with the training.",
                    model=model,
                    own=own,
                )
                yield told(self, patient, "own", said, own, at)
            if missing and 2 * (given - unexpected) < given:
                taken = given - unexpected
                said = say(
                    "load_state_dict(strict=False) of {model} took {taken} of {given} tensors: {wanted} is wanted, "
                    "{other} is given.",
                    model=model,
                    taken=taken,
                    given=given,
                    wanted=wanted,
                    other=other,
                )
                breaks = "" if taken else say("the weights of the file are not used")
                yield told(self, patient, "weights", said, taken, at, breaks=breaks)
        for part, begun in found.taken.items():
            name, many = found.held.get(part, ("", 0))
            if found.goes_on and many and not begun:
                file = "/".join(name.split("/")[-2:])
                said = say(
                    "The {part} begins afresh: nothing loaded its state from {name}.", part=term(part), name=file
                )
                yield told(self, patient, part, said, many, at)
        if found.into:
            said = say(
                "The run before ended {into} steps into an epoch, and this one reads it from its start.",
                into=found.into,
            )
            yield told(self, patient, "position", said, found.into, at)
