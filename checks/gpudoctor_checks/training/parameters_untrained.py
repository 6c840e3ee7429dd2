"""TRAIN005: what is meant to be trained is not, by the parameters of the model and of its optimizers."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import demanded
from gpudoctor.analysis.run.training import told
from gpudoctor.lang import say, template
from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity
from gpudoctor.text import joined, number, percent

_NAMED = 64
"""Parameters in no optimizer that a recording names."""
_BEHIND = 0.05
"""Part of the way of the trained weights below which a copy of them is no average."""
_SAID = {
    "tokens": template(
        "The vocabulary was resized to {rows:,} rows, and {names} stayed frozen. {batches} batches had {size:,} new "
        "tokens, whose rows are as they were made."
    ),
    "replaced": template(
        "An adapter of {size} tensors was loaded, and the model that trains has none of them. A new adapter is in "
        "their place."
    ),
    "left": template(
        "{names} get gradients, but no optimizer has them: they were set to require gradients after it was made."
    ),
    "stray": template(
        "{elements} elements of parameters get gradients, but neither the model nor an optimizer has them. A list or a "
        "dict does not register the modules in it."
    ),
    "adapter": template("The adapter is frozen: none of its {elements} elements is trained."),
    "head": template(
        "The adapter is trained, and the head of the model for its task is frozen: {names}. Where it was made anew, it "
        "stays random."
    ),
    "base": template(
        "{elements} elements of the base are trained under the adapter. A saved adapter does not have them."
    ),
}
_SURE = ("tokens", "replaced", "left", "stray")
"""Which are errors."""


class ParametersUntrained(Check):
    """A part of the model that is meant to be trained is not.

    What it finds:
        In a recording:
        - new tokens in the training data whose rows of the embedding or the head are frozen
        - an adapter that was loaded and that the trained model does not contain
        - an adapter that is frozen, although an optimizer has it or other parts are trained
        - base weights that are trained under an adapter
        - the frozen head of a model for a task (`ForSequenceClassification`) beside an adapter that is trained
        - parameters that get gradients and were put into no optimizer later on, or that the model does not have
        - a copy of the model that evaluations run, and that stays at its first weights
        - such a copy whose batch norms keep their first statistics
    Why it hurts:
        Nothing fails. The rows of new tokens stay random, and a resumed adapter starts afresh. Base weights that
        are trained under an adapter are not saved with it.
    How it knows:
        From a recording: names, sizes and `requires_grad` of the parameters, and the optimizers that hold them.
        The probe also sees a vocabulary that is resized, an adapter that is loaded, and the tokens of batches. It
        walks the graph behind the first losses, and compares some weights with those at the start.
    False alarms:
        A new token that no batch contains (a padding token) is not a finding. Neither is a second adapter that is
        frozen beside a trained one.
    Remedies:
        Train the new rows, wrap the model once, register all parts, and give the optimizer what is to be trained.
    References:
        - https://huggingface.co/docs/peft/developer_guides/troubleshooting
    """

    code = Code("TRAIN005")
    name = "parameters-untrained"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.ERROR
    judges = "parameters"

    def examine(self, patient: Patient) -> Iterator[Finding]:
        process = demanded(patient, 5).lead.process
        for copy in of_run.numerics(process, "copy")[-1:]:
            share = float(copy.get("share") or 0.0)
            place = next(map(of_run.place_of, process.of("optimizer")[-1:]), None)
            if share < _BEHIND:
                message = say(
                    "Evaluations run a copy of {model} that has made {share} of the way of the trained weights since "
                    "the start.",
                    model=str(copy.get("model")),
                    share=percent(share),
                )
                yield told(self, patient, "copy", message, share, place, severity=Severity.WARNING)
            if copy.get("unmoved"):
                message = say(
                    "Evaluations run a copy of {model} whose batch norms still have their first running means of 0. "
                    "Those of the trained model have moved.",
                    model=str(copy.get("model")),
                )
                yield told(self, patient, "buffers", message, share, place, severity=Severity.WARNING)
        seen = of_run.newest_of(process, "parameters")
        if seen is None:
            return

        def size(name: str) -> int:
            return int(seen.get(name) or 0)

        tables = [str(name).rpartition(".")[2] for name in seen.get("frozen_tables") or ()]
        known = of_run.missing(process)
        left = [str(name) for name in seen.get("left") or () if len(known) < _NAMED and str(name) not in known]
        frozen = not size("adapter_trained") and (size("trained") or size("adapter_held"))
        head = [str(name).removesuffix(".weight").rpartition(".")[2] for name in seen.get("head") or ()]
        heads = [name for name in head if name != "bias"] if size("adapter_trained") else []
        sizes = {
            "tokens": size("new_inputs") if tables else 0,
            "replaced": 0 if size("loaded_kept") else size("loaded"),
            "adapter": size("adapter") if frozen else 0,
            "head": len(heads),
            "base": size("base_trained"),
            "left": len(left),
            "stray": size("stray"),
        }
        for how, found in sizes.items():
            if not found:
                continue
            message = say(
                _SAID[how],
                size=found,
                elements=number(found),
                rows=(seen.get("grown") or [0])[-1],
                names=joined({"tokens": tables, "left": left, "head": heads}.get(how, [""])[:3]),
                batches=size("batches"),
            )
            loaded = seen.get("line") and how in ("tokens", "replaced", "adapter")
            place = of_run.place_of(next(iter(() if loaded else process.of("optimizer")[-1:]), seen))
            breaks = say("what is meant to be trained is not") if how in _SURE else ""
            yield told(self, patient, how, message, found, place, breaks=breaks)
