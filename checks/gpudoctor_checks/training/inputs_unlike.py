"""TRAIN003: inputs that are unlike what the model expects."""

from collections.abc import Iterator, Sequence

from gpudoctor.analysis.run.training import data
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity, Threshold
from gpudoctor.model.signs.recording import Record
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import number, percent

_IMAGE = (1, 3, 4)
"""Channels of an image."""
_SMALL, _BRIGHT, _SOME = 8, 100.0, 8
"""Pixels of a side at least, the greatest value of raw pixels at least, rows of a batch that are compared."""
_LEAST, _CONSTANT, _REPEATED = 32, 0.95, 0.2
"""Samples that are compared at least; share of numbers that are the same in all of them: borders of MNIST are a third;
share of samples that come again: made-up texts do, too.
"""

_RANGE = ((min, "least"), (max, "most"))


class InputsUnlike(Check):
    """The model is given inputs that it was not made for.

    What it finds:
        In a recording, at the first layer, the model's call or the loader:
        - pixels from 0 to 255
        - images with channels last in a convolution
        - features that are constant, or not finite
        - padding that attention sees
        - position ids that jump, or start again where no text ends
        - samples that come again within an epoch
    Why it hurts:
        Nothing raises. Such a model trains slowly, or to a worse end.
    How it knows:
        From a recording: range and shape of what the first layer with weights is given. Padding, mask and
        positions of the loader's batches, and whether the call has a mask; hashes of samples.
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
    judges = "batch"
    thresholds = (
        Threshold(
            name="padding_share",
            default=0.05,
            unit="1",
            source="convention",
            meaning="Less padding in sight of the attention, by tokens, is not reported.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        recording = patient.recording
        seen, calls = data.looks(recording).get(data.TRAINING), data.calls(recording)
        if seen is None and not calls["layer"]:
            raise Unavailable(say("no batch was seen in the recording"))
        if calls["layer"]:
            yield from self._layer(patient, calls["layer"])
        if seen is not None and calls["ids"]:
            yield from self._attention(patient, seen, calls["ids"])
        if seen is not None:
            yield from self._rows(patient, seen)

    def _layer(self, patient: Patient, layers: Sequence[Record]) -> Iterator[Finding]:
        """What the first layer with weights is given."""
        last, of = layers[-1], sum(int(item.get("of") or 0) for item in layers)
        layer, shape = str(last.get("layer")), [int(size) for size in last.get("shape") or ()]
        if bad := of - sum(int(item.get("finite") or 0) for item in layers):
            message = say(
                "The first layer ({layer}) is given {bad:,} values that are not finite, of {of:,} looked at.",
                layer=layer,
                bad=bad,
                of=of,
            )
            breaks = say("the outputs are no numbers")
            yield data.shown(self, patient, "unreal", message, bad / of, Severity.ERROR, breaks=breaks)
            return
        least, most = (end(float(item.get(name) or 0.0) for item in layers) for end, name in _RANGE)
        mean, convolves = float(last.get("mean") or 0.0), int(last.get("dims") or 0) >= 4
        pixels = last.get("rounded") == last.get("of") and least >= 0.0 and _BRIGHT <= most <= 255.0 and mean > 1.0
        if pixels and (shape[1] in _IMAGE if convolves else shape[-1] >= 256):
            message = say(
                "The first layer ({layer}) is given raw pixels: {least} to {most}, on average {mean}.",
                layer=layer,
                least=number(least),
                most=number(most),
                mean=number(round(mean)),
            )
            norm = "Norm" in f"{layer} {last.get('next')}"
            yield data.shown(self, patient, "pixels", message, most, Severity.NOTE if norm else Severity.WARNING)
        if convolves and len(shape) == 4 and shape[3] in _IMAGE and shape[1] == shape[2] >= _SMALL:
            message = say(
                "The first convolution is given {shape}. The channels are last, so it takes {channels} rows of the "
                "image for channels.",
                shape=" x ".join(map(number, shape)),
                channels=shape[1],
            )
            breaks = say("the convolution slides over columns and channels")
            yield data.shown(self, patient, "last", message, shape[3], Severity.ERROR, breaks=breaks)
        yield from self._constant(patient, [item for item in layers if int(item.get("rows") or 0) >= _SOME])

    def _constant(self, patient: Patient, layers: Sequence[Record]) -> Iterator[Finding]:
        """Numbers that are the same in all samples of a batch. Zeros are rare words, or borders, if others differ."""
        rows, shares = sum(int(item.get("rows")) for item in layers), list[float]()
        for item in layers:
            features = int(item.get("of")) // int(item.get("rows"))
            alike = int(item.get("alike") or 0)
            shares.append((alike if alike == features else int(item.get("constant") or 0)) / features)
        share = min(shares, default=0.0)
        if rows < _LEAST or share < _CONSTANT:
            return
        message = say(
            "{share} of what the first layer is given is the same in all samples of a batch ({rows:,} looked at).",
            share=percent(share),
            rows=rows,
        )
        breaks = say("all samples are alike to the model") if share == 1.0 else None
        severity = Severity.ERROR if breaks else Severity.WARNING
        yield data.shown(self, patient, "constant", message, share, severity, breaks=breaks)

    def _attention(self, patient: Patient, seen: data.Looks, calls: Sequence[Record]) -> Iterator[Finding]:
        """Padding that no mask hides; a causal model sees none that comes after the text."""
        last, unmasked = calls[-1], any(item.get("attention") is False for item in calls)
        given = last.get("mask") == "attention_mask" and seen.records[-1].get("masked")
        if not given and (last.get("mask") or not (last.get("takes_mask") or unmasked)):
            return
        sides = ("before",) if last.get("causal") else ("before", "after")
        pads = sum(seen.total(f"seen_{side}" if given else side) for side in sides)
        share = pads / max(1, seen.total("tokens"))
        if not pads or share < self.limit("padding_share"):
            return
        message = say(
            "Attention sees {seen:,} padding tokens, {share} of all: {how}.",
            seen=pads,
            share=percent(share),
            how=say("its mask does not hide them") if given else say("it is given no mask"),
        )
        yield data.shown(self, patient, "attended", message, share, Severity.WARNING)

    def _rows(self, patient: Patient, seen: data.Looks) -> Iterator[Finding]:
        """Positions, and samples that come again within an epoch of a sampler that draws each once."""
        jumps, tokens = seen.total("jumps"), seen.total("tokens")
        if jumps > 0.01 * tokens:
            message = say(
                "Position ids break off {jumps:,} times in {tokens:,} tokens where no text begins.",
                jumps=jumps,
                tokens=tokens,
            )
            yield data.shown(self, patient, "positions", message, jumps / tokens, Severity.WARNING)
        found, loader = data.overlap(patient.recording), seen.records[-1].get("loader")
        records = [item for rank in patient.recording.ranks for item in rank.of("loader") if item.get("id") == loader]
        once = bool(records) and (records[-1].get("order") or records[-1].get("iterable"))
        share = found.repeated / max(1, found.rows)
        if once and found.rows >= _LEAST and found.width >= 16 and share >= _REPEATED:
            message = say(
                "{repeated} of {rows} samples of one epoch that were looked at came twice or more.",
                repeated=found.repeated,
                rows=found.rows,
            )
            yield data.shown(self, patient, "repeated", message, share, Severity.WARNING)
