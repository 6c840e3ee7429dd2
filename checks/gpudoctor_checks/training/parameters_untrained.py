"""TRAIN005: what is meant to be trained is not, by the parameters of the model and of its optimizers."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import demanded, spots
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Cost, Detail, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.records import frozen
from gpudoctor.text import joined, number


@frozen
class ParametersUntrainedDetail(Detail):
    """What the rule reads."""

    how: str
    """`tokens`, `replaced`, `adapter`, `base`, `left` or `twice`."""
    names: str = ""
    """The parameters that are meant."""


class ParametersUntrained(Check):
    """A part of the model that is meant to be trained is not.

    What it finds:
        In a recording:
        - new tokens in the training data whose rows of the embedding or the head are frozen
        - an adapter that was loaded and that the trained model does not contain
        - an adapter that is frozen while other parts are trained
        - base weights that are trained under an adapter
        - parameters that get gradients and were put into no optimizer later on
        - parameters that two optimizers step
    Why it hurts:
        Nothing fails. The rows of new tokens stay random, and a resumed adapter starts afresh. Base weights that
        are trained under an adapter are not saved with it.
    How it knows:
        From a recording: names, sizes and `requires_grad` of the parameters, and the optimizers that hold them.
        The probe also sees a vocabulary that is resized, an adapter that is loaded, and the tokens of batches.
    False alarms:
        A new token that no batch contains (a padding token) is not a finding. A part that is frozen on purpose
        is not one either. A second adapter that is frozen beside a trained one is a reference. Two optimizers
        over shared parameters may be meant: it is a note.
    Remedies:
        Train the new rows, wrap the model once, and give the optimizer what is to be trained.
    References:
        - https://huggingface.co/docs/peft/developer_guides/troubleshooting
    """

    code = Code("TRAIN005")
    name = "parameters-untrained"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.ERROR
    thresholds = (
        Threshold(
            name="steps",
            default=5,
            unit="{steps}",
            source="convention: names and flags do not vary from step to step",
            meaning="Fewer steps in a recording are not judged.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient, self.limit("steps"))
        process = run.lead.process
        seen = of_run.trained(process)
        if seen is None:
            return

        def size(name: str) -> int:
            return int(seen.get(name) or 0)

        def found(how: str, message: str, value: int, severity: Severity, breaks: str, names: str = "") -> Finding:
            at = seen if how in ("tokens", "replaced") else next(iter(process.of("optimizer")), seen)
            return confirmed(
                self,
                (),
                message,
                evidence=(*spots(patient, of_run.place_of(at)), run.measured(how, value)),
                severity=severity,
                cost=Cost(breaks=breaks if severity is Severity.ERROR else None),
                detail=ParametersUntrainedDetail(how=how, names=names),
            )

        tables = [str(name) for name in seen.get("frozen_tables") or ()]
        if tables and size("new_inputs"):
            before, after = seen.get("grown")
            text = say(
                "The vocabulary was resized from {before:,} to {after:,} rows, and {names} stayed frozen. "
                "{batches} batches had {new:,} new tokens, whose rows are as they were made.",
                before=before,
                after=after,
                names=joined([name.split(".model.")[-1] for name in tables[:3]]),
                batches=size("batches"),
                new=size("new_inputs"),
            )
            breaks = say("the model does not learn the new tokens")
            yield found("tokens", text, size("new_inputs"), Severity.ERROR, breaks, joined(tables[:3]))
        if size("loaded") and not size("loaded_kept"):
            text = say(
                "An adapter of {loaded} tensors was loaded, and the model that trains has none of them. A new "
                "adapter is in their place.",
                loaded=size("loaded"),
            )
            yield found("replaced", text, size("loaded"), Severity.ERROR, say("the loaded adapter is lost"))
        if size("adapter") and not size("adapter_trained") and size("trained"):
            text = say(
                "The adapter is frozen: none of its {adapter} elements is trained, but {trained} others are.",
                adapter=number(size("adapter")),
                trained=number(size("trained")),
            )
            yield found("adapter", text, size("adapter"), Severity.WARNING, "")
        if size("base_trained"):
            text = say(
                "{base} elements of the base are trained under the adapter ({adapter} elements). A saved adapter "
                "does not have them.",
                base=number(size("base_trained")),
                adapter=number(size("adapter")),
            )
            yield found("base", text, size("base_trained"), Severity.WARNING, "")
        late = [str(name) for name in seen.get("left") or () if str(name) not in of_run.missing(process)]
        if late and size("left_elements"):
            text = say(
                "{names} get gradients, but no optimizer has them: {left} elements were set to require gradients "
                "after the optimizer was made.",
                names=joined(late[:3]),
                left=number(size("left_elements")),
            )
            breaks = say("the part that was unfrozen does not train")
            yield found("left", text, size("left_elements"), Severity.ERROR, breaks, joined(late[:3]))
        if size("twice"):
            text = say(
                "Two optimizers step the same {twice} elements, each with its own state.", twice=number(size("twice"))
            )
            yield found("twice", text, size("twice"), Severity.NOTE, "")
