"""TRAIN007: the gradients of a step are too large or too small by a factor that nobody meant."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.run.steady_run import demanded
from gpudoctor.analysis.run.training import told
from gpudoctor.lang import say, template
from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import percent

_LOOKS, _STEPS = 3, 30
"""Steps looked at, and made, that must be there."""
_OFTEN = 0.8
"""Share of the looks that must show it."""
_UNEVEN = 2.0
"""The most targets of a micro batch by the fewest."""
_ALWAYS, _TIMES = 0.95, 10
"""Share of clipped steps, and their median norm by the limit."""
_WEIGHED = template(
    "{micro} micro batches are added up in a step, and the mean loss of each has a weight of {weight:.3g}. The "
    "gradient is {factor:.3g} times that of their mean."
)
_SAID = {
    "undivided": _WEIGHED,
    "twice": _WEIGHED,
    "again": template(
        "The same loss runs backward twice in {size} of {looks} steps looked at. Nothing clears the gradients "
        "between, so it counts twice."
    ),
    "cleared": template(
        "The gradients are cleared before each of {micro} micro batches: a step uses the last one only."
    ),
    "uneven": template(
        "Each of {micro} micro batches counts as its mean, but one has {size:.1f} times the targets of another "
        "(median). A target in a short one counts that much more."
    ),
    "unclipped": template(
        "No clip was given any gradient: each returned a norm of 0, while the gradients have one of {norm:.3g} "
        "(median)."
    ),
    "clipped": template(
        "The gradients are clipped at {limit:g} in {share} of the steps; their median norm is {norm:.3g}."
    ),
}


class GradientsMisscaled(Check):
    """The gradients of a step are several times too large or too small.

    What it finds:
        In a recording:
        - accumulated micro batches whose mean loss is not divided, or divided twice
        - accumulated micro batches before each of which the gradients are cleared
        - the same loss that runs backward twice in a step
        - means over micro batches that have very different numbers of targets
        - clipping in nearly every step, with norms far above the limit
        - clipping that gets no gradient, as from an iterator of parameters that is used up
    Why it hurts:
        Four undivided micro batches make the gradient four times as large: with SGD that is four times the
        learning rate. With Adam, clipping and epsilon act otherwise. If every step is clipped, the learning
        rate no longer depends on the gradient.
    How it knows:
        From a recording: the graph behind each loss says by which number the mean of the criterion was multiplied.
        Micro batches come from one loader, and one line runs them backward.
    False alarms:
        Losses of several lines or loaders (a GAN, several tasks) are not meant. With Adam and without clipping, or
        without a loader, it is a note.
    Remedies:
        Divide the loss by the number of micro batches, once.
    References:
        - https://huggingface.co/blog/gradient_accumulation
        - https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation
    """

    code = Code("TRAIN007")
    name = "gradients-misscaled"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.WARNING
    judges = "gradients"

    def examine(self, patient: Patient) -> Iterator[Finding]:
        process = demanded(patient, _STEPS).lead.process
        if (nothing := of_run.clips_of_nothing(process)) is not None:
            clips, norm = nothing
            message = say(_SAID["unclipped"], norm=norm)
            yield told(self, patient, "unclipped", message, norm, of_run.place_of(clips), severity=Severity.WARNING)
        seen = of_run.newest_of(process, "gradients")
        if seen is None:
            raise Unavailable(say("no backward pass was looked at"))
        looks, micro, uneven = (float(seen.get(name) or 0) for name in ("looks", "micro", "uneven"))
        if looks < _LOOKS:
            return
        limit, share, norm = of_run.clipping(process) or (0.0, 0.0, 0.0)
        counted = ("cleared", "undivided", "twice", "again") if micro > 1 else ("again",)
        found: dict[str, float] = {}
        for how in counted:
            size = int(seen.get(how) or 0)
            if size >= _OFTEN * looks:
                found[how] = size if how == "again" else micro
        if uneven >= _UNEVEN:
            found["uneven"] = uneven
        if share >= _ALWAYS and norm >= _TIMES * limit:
            found["clipped"] = share
        if "cleared" in found:
            found = {"cleared": found["cleared"]}
        sure = {"again", "cleared"}
        # A factor that nothing in the step undoes, and batches that are known to be one loader's.
        acts = limit or any("SGD" in str(item.get("name")) for item in process.of("optimizer"))
        if acts and process.of("loader"):
            sure |= {"undivided", "twice"}
        factor = micro if "undivided" in found else 1 / micro
        for how, amount in found.items():
            message = say(
                _SAID[how],
                size=amount,
                looks=int(looks),
                micro=int(micro),
                factor=factor,
                weight=factor / micro,
                limit=limit,
                share=percent(share),
                norm=norm,
            )
            level = Severity.WARNING if how in sure else Severity.NOTE
            yield told(self, patient, how, message, amount, of_run.place_of(seen), severity=level)
