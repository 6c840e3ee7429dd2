"""TRAIN003: inputs that are unlike what the model expects."""

from collections.abc import Iterator, Sequence

from gpudoctor.analysis.observation import confirmed
from gpudoctor.analysis.run.steady_run import measured
from gpudoctor.analysis.run.training import data
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Cost, Detail, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.recording import Record
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import number, percent

_IMAGE = (1, 3, 4)
"""Channels of an image."""
_SMALL, _BRIGHT, _DARK = 8, 100.0, 0.0079
"""Pixels of a side at least, the greatest value of raw pixels at least, and of pixels that were divided twice."""


@frozen
class InputsUnlikeDetail(Detail):
    """What the rule reads."""

    how: str
    """One of `pixels`, `dark`, `last`, `unreal`, `constant`, `padding`, `positions`, `repeated`."""


class InputsUnlike(Check):
    """The model is given inputs that it was not made for.

    What it finds:
        In a recording, at the first layer, the model's call or the loader:
        - pixels from 0 to 255, or divided by 255 twice
        - images with channels last in a convolution
        - features that are constant, or not finite
        - padding that attention sees
        - position ids that jump, or start again where no text ends
        - samples that come again within an epoch
    Why it hurts:
        Nothing raises. Such a model trains slowly, or to a worse end.
    How it knows:
        From a recording: range and shape of what the first layer with weights is given. Padding, mask and
        positions of the model's call; hashes of samples.
    False alarms:
        Normalisation after the first layer cancels the scale: that is a note. Samples repeated on purpose.
        Without a known padding token no padding is judged.
    Remedies:
        Scale, permute or mask the input where the batch is made.
    References:
        - https://docs.pytorch.org/vision/stable/transforms.html
        - https://huggingface.co/docs/transformers/glossary#attention-mask
    """

    code = Code("TRAIN003")
    name = "inputs-unlike"
    reads = frozenset({Reads.RECORDING})
    severity = Severity.WARNING
    thresholds = (
        Threshold(
            name="padding_share",
            default=0.05,
            unit="1",
            source="convention",
            meaning="Less padding in sight of the attention, by tokens, is not reported.",
        ),
        Threshold(
            name="constant_share",
            default=0.95,
            unit="1",
            source="black borders of MNIST are a third of the pixels",
            meaning="If at least this share of features is the same in all samples, the input is broken.",
        ),
        Threshold(
            name="repeated_share",
            default=0.05,
            unit="1",
            source="convention: public sets have up to 3 % duplicates (CIFAR-100)",
            meaning="Fewer samples that come again within an epoch are not reported.",
        ),
        Threshold(
            name="rows",
            default=32,
            unit="1",
            source="convention: one usual batch",
            meaning="Fewer samples are not compared.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        recording = patient.recording
        seen, calls = data.looks(recording).get(data.TRAINING), data.calls(recording)
        if seen is None and not any(calls.values()):
            raise Unavailable(say("no batch was seen in the recording"))
        yield from self._layer(patient, calls["layer"])
        yield from self._attention(patient, calls["ids"])
        yield from self._positions(patient, [item for item in calls["ids"] if item.get("jumps") is not None])
        if seen is not None:
            yield from self._features(patient, seen)
            yield from self._repeated(patient, seen)

    def _layer(self, patient: Patient, layers: Sequence[Record]) -> Iterator[Finding]:
        """What the first layer with weights is given."""
        if not layers:
            return
        last = layers[-1]
        shape, convolves = [int(size) for size in last.get("shape") or ()], int(last.get("dims") or 0) >= 4
        name = str(last.get("layer"))
        bad = sum(int(item.get("of") or 0) - int(item.get("finite") or 0) for item in layers)
        if bad:
            of = sum(int(item.get("of") or 0) for item in layers)
            message = say(
                "The first layer ({layer}) is given {bad:,} values that are not finite, of {of:,} looked at.",
                layer=name,
                bad=bad,
                of=of,
            )
            breaks = say("the outputs are no numbers")
            yield self._found(patient, "unreal", message, bad / of, Severity.ERROR, breaks)
            return
        least = min(float(item.get("least") or 0.0) for item in layers)
        most = max(float(item.get("most") or 0.0) for item in layers)
        mean, whole = float(last.get("mean") or 0.0), last.get("rounded") == last.get("of")
        many = len(shape) > 1 and (shape[1] in _IMAGE if convolves else shape[-1] >= 256 and whole)
        bright, usual = (_BRIGHT, 1.0) if whole else (200.0, 20.0)
        if many and least >= 0.0 and bright <= most <= 255.5 and mean > usual:
            message = say(
                "The first layer ({layer}) is given raw pixels: {least} to {most}, on average {mean}.",
                layer=name,
                least=number(least),
                most=number(most),
                mean=number(round(mean)),
            )
            norm = "Norm" in str(last.get("next")) or "Norm" in name
            yield self._found(patient, "pixels", message, most, Severity.NOTE if norm else Severity.WARNING)
        elif convolves and many and least >= 0.0 and 0.0 < most <= _DARK:
            message = say(
                "The first layer ({layer}) is given pixels of at most {most}: they were divided by 255 twice.",
                layer=name,
                most=number(most),
            )
            yield self._found(patient, "dark", message, most, Severity.WARNING)
        square = len(shape) == 4 and shape[1] == shape[2]
        if convolves and len(shape) == 4 and shape[3] in _IMAGE[not square :] and min(shape[1:3]) >= _SMALL:
            message = say(
                "The first convolution is given {shape}. The channels are last, so it takes {channels} rows of the "
                "image for channels.",
                shape=" x ".join(map(number, shape)),
                channels=shape[1],
            )
            slides = say("the convolution slides over columns and channels") if square else None
            yield self._found(
                patient, "last", message, shape[3], Severity.ERROR if square else Severity.WARNING, slides
            )

    def _attention(self, patient: Patient, calls: Sequence[Record]) -> Iterator[Finding]:
        """Padding that no mask hides; a causal model sees none that comes after the text."""
        unmasked = [item.get("takes_mask") or item.get("attention") is False for item in calls]
        shown = [
            item
            for item, bare in zip(calls, unmasked, strict=True)
            if item.get("whole") or (bare and not item.get("given"))
        ]
        tokens = sum(item.get("shape")[0] * item.get("shape")[1] for item in shown if item.get("shape"))
        seen = sum(
            int(item.get("seen_before") or 0) + (not item.get("causal")) * int(item.get("seen_after") or 0)
            for item in shown
        )
        if not seen or seen < self.limit("padding_share") * tokens:
            return
        how = say("its mask hides none of it") if shown[-1].get("given") else say("it is given no mask")
        message = say(
            "Attention sees {seen:,} padding tokens, {share} of all: {how}.",
            seen=seen,
            share=percent(seen / tokens),
            how=how,
        )
        yield self._found(patient, "padding", message, seen / tokens, Severity.WARNING)

    def _positions(self, patient: Patient, calls: Sequence[Record]) -> Iterator[Finding]:
        tokens = sum(item.get("shape")[0] * item.get("shape")[1] for item in calls)
        jumps, starts, right, ends = (
            sum(int(item.get(name) or 0) for item in calls)
            for name in ("jumps", "starts", "starts_after_end", "ends_inside")
        )
        if tokens and jumps >= 0.01 * tokens:
            message = say(
                "Position ids jump {jumps:,} times in {tokens:,} tokens without starting again at 0.",
                jumps=jumps,
                tokens=tokens,
            )
            yield self._found(patient, "positions", message, jumps / tokens, Severity.WARNING)
        elif tokens and (starts > 0.5 * tokens or (min(starts, ends) > 2 and right < 0.5 * min(starts, ends))):
            message = say(
                "Position ids start again {starts:,} times, {right:,} of these after an end token; {ends:,} texts end.",
                starts=starts,
                right=right,
                ends=ends,
            )
            yield self._found(patient, "positions", message, right / starts, Severity.WARNING)

    def _features(self, patient: Patient, seen: data.Looks) -> Iterator[Finding]:
        last = seen.records[-1]
        features, constant, zero = (int(last.get(name) or 0) for name in ("features", "constant", "zero"))
        if constant + zero == features:  # else zeros are rare words, or borders
            constant = features
        unreal = seen.total("unreal")
        if unreal and not data.calls(patient.recording)["layer"]:
            message = say("{unreal:,} numbers of the batches are not finite.", unreal=unreal)
            yield self._found(patient, "unreal", message, unreal, Severity.WARNING)
        if int(last.get("seen") or 0) < self.limit("rows") or features < 2 or not constant:
            return
        share = constant / features
        message = say(
            "{constant:,} of {features:,} features are the same in all {rows:,} samples looked at.",
            constant=constant,
            features=features,
            rows=int(last.get("seen")),
        )
        if share >= self.limit("constant_share"):
            breaks = say("all samples are alike to the model") if constant == features else None
            yield self._found(
                patient, "constant", message, share, Severity.ERROR if breaks else Severity.WARNING, breaks
            )
        elif share >= 0.25 and max((len(shape) for _, _, shape in last.get("shapes")), default=0) == 2:
            yield self._found(patient, "constant", message, share, Severity.NOTE)

    def _repeated(self, patient: Patient, seen: data.Looks) -> Iterator[Finding]:
        """Samples that come again within an epoch, of a sampler that draws each once."""
        found, loader = data.overlap(patient.recording), seen.records[-1].get("loader")
        records = [item for rank in patient.recording.ranks for item in rank.of("loader") if item.get("id") == loader]
        if not records or not (records[-1].get("order") or records[-1].get("iterable")):
            return
        share = found.repeated / max(1, found.rows)
        if found.rows < self.limit("rows") or found.width < 16 or share < self.limit("repeated_share"):
            return
        message = say(
            "{repeated} of {rows} samples of one epoch that were looked at came twice or more.",
            repeated=found.repeated,
            rows=found.rows,
        )
        yield self._found(patient, "repeated", message, share, Severity.WARNING if share >= 0.2 else Severity.NOTE)

    def _found(
        self, patient: Patient, how: str, message: str, value: float, severity: Severity, breaks: str | None = None
    ) -> Finding:
        return confirmed(
            self,
            (),
            message,
            evidence=(*data.made_at(patient), measured(f"inputs_{how}", value, "1", patient.recording)),
            severity=severity,
            cost=Cost(breaks=breaks),
            subject=how,
            detail=InputsUnlikeDetail(how=how),
        )
