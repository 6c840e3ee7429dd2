"""TRAIN007: the gradients of a step are too large or too small by a factor that nobody meant."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import demanded, spots
from gpudoctor.lang import say, template
from gpudoctor.model import Check, Code, Detail, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.records import frozen
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import percent

_LOOKS, _STEPS = 3, 30
"""Steps looked at, and made, that must be there."""
_UNEVEN, _ALWAYS, _TIMES = 2.0, 0.95, 10
"""Most targets by fewest that are told; a share of clipped steps and norm by limit that are."""
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
    "uneven": template(
        "Each of {micro} micro batches counts as its mean, but one has {size:.1f} times the targets of another "
        "(median). A target in a short one counts that much more."
    ),
    "clipped": template(
        "The gradients are clipped at {limit:g} in {share} of the steps; their median norm is {norm:.3g}."
    ),
}


@frozen
class GradientsMisscaledDetail(Detail):
    """What the rule reads."""

    how: str
    """`undivided`, `twice`, `again`, `uneven` or `clipped`."""


class GradientsMisscaled(Check):
    """The gradients of a step are several times too large or too small.

    What it finds:
        In a recording:
        - accumulated micro batches whose mean loss is not divided, or divided twice
        - the same loss that runs backward twice in a step
        - means over micro batches that have very different numbers of targets
        - clipping in nearly every step, with norms far above the limit
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
    thresholds = (
        Threshold(
            name="share",
            default=0.9,
            unit="1",
            source="convention: what a loop does, it does in each step",
            meaning="At least this share of the steps looked at must show it.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient, _STEPS)
        process = run.lead.process
        seen = of_run.newest_of(process, "gradients")
        if seen is None:
            raise Unavailable(say("no backward pass was looked at"))
        looks = int(seen.get("looks") or 0)
        if looks < _LOOKS:
            return
        micro, uneven = int(seen.get("micro") or 1), float(seen.get("uneven") or 0.0)
        limit, share, norm = of_run.clipping(process) or (0.0, 0.0, 0.0)
        found: dict[str, float] = {
            how: often
            for how in ("undivided", "twice", "again")
            if (often := int(seen.get(how) or 0)) >= self.limit("share") * looks and (micro > 1 or how == "again")
        }
        found |= {"uneven": uneven} if uneven >= _UNEVEN else {}
        found |= {"clipped": share} if share >= _ALWAYS and norm >= _TIMES * limit else {}
        # A factor that nothing in the step undoes, and batches that are known to be one loader's.
        acts = limit or any("SGD" in str(item.get("name")) for item in process.of("optimizer"))
        sure = {"again", *(("undivided", "twice") if acts and process.of("loader") else ())}
        factor = micro if "undivided" in found else 1 / micro
        for how, size in found.items():
            message = say(
                _SAID[how],
                size=size,
                looks=looks,
                micro=micro,
                factor=factor,
                weight=factor / micro,
                limit=limit,
                share=percent(share),
                norm=norm,
            )
            yield confirmed(
                self,
                (),
                message,
                evidence=(*spots(patient, of_run.place_of(seen)), run.measured(how, size)),
                severity=Severity.WARNING if how in sure else Severity.NOTE,
                detail=GradientsMisscaledDetail(how=how),
            )
