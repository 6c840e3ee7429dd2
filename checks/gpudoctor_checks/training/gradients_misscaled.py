"""TRAIN007: the gradients of a step are too large or too small by a factor that nobody meant."""

from collections.abc import Iterator

from gpudoctor.analysis import of_run
from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import demanded, spots
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Detail, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.records import frozen
from gpudoctor.text import percent


@frozen
class GradientsMisscaledDetail(Detail):
    """What the rule reads."""

    how: str
    """`undivided`, `twice`, `again`, `uneven` or `clipped`."""
    micro: int
    """Backward passes of a step."""


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
        From a recording: the graph behind each loss says by which number the result of the criterion was
        multiplied. Micro batches come from one loader, and one line runs them backward.
    False alarms:
        Only criteria that are means are judged, with weights that the host knows. Losses of several lines or
        loaders (a GAN, several tasks) are not meant. Where the sum is meant, change nothing: with Adam and without
        clipping it is a note.
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
    thresholds = (
        Threshold(
            name="share",
            default=0.9,
            unit="1",
            source="convention: what a loop does, it does in each step",
            meaning="At least this share of the steps looked at must show it.",
        ),
        Threshold(
            name="looks",
            default=3,
            unit="{steps}",
            source="the number of steps that are looked at in any case",
            meaning="Fewer steps looked at are not judged.",
        ),
        Threshold(
            name="steps",
            default=30,
            unit="{steps}",
            source="the least number of steps by which shares are judged",
            meaning="Fewer steps with a known norm say nothing of clipping.",
        ),
        Threshold(
            name="uneven",
            default=2.0,
            unit="1",
            source="convention: one target counts twice another one",
            meaning="From this ratio of most to fewest targets, means over micro batches are a note.",
        ),
        Threshold(
            name="clipped",
            default=0.95,
            unit="1",
            source="convention: nearly every step",
            meaning="If this share of the steps is clipped, it is a note.",
        ),
        Threshold(
            name="times",
            default=10.0,
            unit="1",
            source="convention: an order of magnitude",
            meaning="The median norm must be this many times the limit.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = demanded(patient, 5)
        process = run.lead.process
        seen = of_run.newest_of(process, "gradients")
        if seen is None or int(seen.get("looks") or 0) < self.limit("looks"):
            return
        looks, micro = int(seen.get("looks") or 0), int(seen.get("micro") or 1)
        least = self.limit("share") * looks
        clips = of_run.clipping(process)
        adaptive = not any("SGD" in str(item.get("name")) for item in process.of("optimizer")) and clips is None

        def found(how: str, message: str, value: float, severity: Severity) -> Finding:
            at = spots(patient, of_run.place_of(seen))
            return confirmed(
                self,
                (),
                message,
                evidence=(*at, run.measured(how, value)),
                severity=severity,
                detail=GradientsMisscaledDetail(how=how, micro=micro),
            )

        for how, factor in (("undivided", micro), ("twice", 1 / micro)):
            often = int(seen.get(how) or 0)
            if micro > 1 and often >= self.limit("looks") and often >= least:
                text = say(
                    "{micro} micro batches are added up in a step, and the mean loss of each has a weight of "
                    "{weight:.3g}. The gradient is {factor:.3g} times that of their mean.",
                    micro=micro,
                    weight=factor / micro,
                    factor=factor,
                )
                yield found(how, text, factor, Severity.NOTE if adaptive else Severity.WARNING)
        again = int(seen.get("again") or 0)
        if again >= least:
            text = say(
                "The same loss runs backward twice in {again} of {looks} steps looked at. Nothing clears the gradients "
                "between: they are twice as large.",
                again=again,
                looks=looks,
            )
            yield found("again", text, again / looks, Severity.NOTE if adaptive else Severity.WARNING)
        uneven = seen.get("uneven")
        if uneven is not None and uneven >= self.limit("uneven") and int(seen.get("known") or 0) >= least:
            text = say(
                "Each of {micro} micro batches counts as its mean, but one has {uneven:.1f} times the targets of "
                "another (median). A target in a short one counts that much more.",
                micro=micro,
                uneven=uneven,
            )
            yield found("uneven", text, uneven, Severity.NOTE)
        always = clips is not None and clips.steps >= self.limit("steps") and clips.share >= self.limit("clipped")
        if clips is not None and always and clips.norm >= self.limit("times") * clips.limit:
            text = say(
                "The gradients are clipped at {limit:g} in {share} of the steps; their median norm is {norm:.3g}.",
                limit=clips.limit,
                share=percent(clips.share),
                norm=clips.norm,
            )
            yield found("clipped", text, clips.share, Severity.NOTE)
