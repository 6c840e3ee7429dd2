"""TRAIN003: inputs that are unlike what the model expects."""

from collections.abc import Iterator, Sequence

from gpudoctor.analysis.run.training import data
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity
from gpudoctor.model.signs.recording import Record
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import number, percent

_IMAGE, _SMALL, _BRIGHT = (1, 3, 4), 8, 100.0
"""Channels of an image, pixels of a side at least, the greatest value of raw pixels at least."""
_SOME, _LEAST, _CONSTANT, _REPEATED, _SEEN = 8, 32, 0.95, 0.1, 0.05
"""Rows of a batch and samples that are compared at least; share of numbers that are the same in all of them: borders of
MNIST are a third; share of samples that come again; share of padding in sight.
"""


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

    def examine(self, patient: Patient) -> Iterator[Finding]:
        recording = patient.recording
        seen, calls = data.looks(recording).get(data.TRAINING), data.calls(recording)
        if seen is None and not calls["layer"]:
            raise Unavailable(say("no batch was seen in the recording"))
        if calls["layer"]:
            yield from self._layer(patient, calls["layer"])
        if seen is not None:
            yield from self._attention(patient, seen, calls["ids"]) if calls["ids"] else ()
            yield from self._rows(patient, seen)

    def _layer(self, patient: Patient, layers: Sequence[Record]) -> Iterator[Finding]:
        """What the first layer with weights is given."""
        last, of = layers[-1], sum(int(item.get("of") or 0) for item in layers)
        layer, shape = str(last.get("layer")), [int(size) for size in last.get("shape") or ()]
        if bad := of - sum(int(item.get("finite") or 0) for item in layers):
            message = say("{bad:,} of {of:,} values that {layer} is given are not finite.", bad=bad, of=of, layer=layer)
            breaks = say("the outputs are no numbers")
            yield data.shown(self, patient, "unreal", message, bad / of, breaks=breaks)
            return
        least = min(float(item.get("least") or 0.0) for item in layers)
        most = max(float(item.get("most") or 0.0) for item in layers)
        mean, convolves = float(last.get("mean") or 0.0), int(last.get("dims") or 0) >= 4
        pixels = last.get("rounded") == last.get("of") and least >= 0.0 and _BRIGHT <= most <= 255.0 and mean > 1.0
        if pixels and (shape[1] in _IMAGE if convolves else shape[-1] >= 256):
            message = say("The first layer is given raw pixels, up to {most}.", most=number(most))
            severity = Severity.NOTE if "Norm" in f"{layer} {last.get('next')}" else None
            yield data.shown(self, patient, "pixels", message, most, severity=severity)
        if convolves and len(shape) == 4 and shape[3] in _IMAGE and shape[1] == shape[2] >= _SMALL:
            sizes = " x ".join(map(number, shape))
            message = say("The first convolution is given {sizes}: the channels are last.", sizes=sizes)
            breaks = say("the convolution slides over columns and channels")
            yield data.shown(self, patient, "last", message, shape[3], breaks=breaks)
        wide = [item for item in layers if int(item.get("rows") or 0) >= _SOME]
        shares = [int(item.get("constant") or 0) * int(item.get("rows")) / int(item.get("of")) for item in wide]
        if sum(int(item.get("rows")) for item in wide) >= _LEAST and (share := min(shares)) >= _CONSTANT:
            message = say("{share} of the first layer's input is the same in all samples.", share=percent(share))
            same = say("all samples are alike to the model") if share == 1.0 else ""
            yield data.shown(self, patient, "constant", message, share, breaks=same)

    def _attention(self, patient: Patient, seen: data.Looks, calls: Sequence[Record]) -> Iterator[Finding]:
        """Padding that no mask hides; a causal model sees none that comes after the text."""
        last = calls[-1]
        masked = last.get("mask") == "attention_mask" and seen.records[-1].get("masked")
        bare = last.get("takes_mask") or any(item.get("attention") is False for item in calls)
        pads = seen.total("seen_before") + (0 if last.get("causal") else seen.total("seen_after"))
        share = pads / max(1, seen.total("tokens"))
        if (masked or (bare and not last.get("mask"))) and share >= _SEEN:
            how = say("its mask does not hide them") if masked else say("it is given no mask")
            message = say("Attention sees {seen:,} padding tokens: {how}.", seen=pads, how=how)
            yield data.shown(self, patient, "attended", message, share)

    def _rows(self, patient: Patient, seen: data.Looks) -> Iterator[Finding]:
        """Positions, and samples that come again within an epoch of a sampler that draws each once."""
        jumps, tokens = seen.total("jumps"), seen.total("tokens")
        if jumps > 0.01 * tokens:
            message = say("Position ids jump {jumps:,} times within {tokens:,} tokens.", jumps=jumps, tokens=tokens)
            yield data.shown(self, patient, "positions", message, jumps / tokens)
        (*_, again, rows), loader = data.overlap(patient.recording), seen.records[-1].get("loader")
        records = [item for rank in patient.recording.ranks for item in rank.of("loader") if item.get("id") == loader]
        once = bool(records) and (records[-1].get("order") or records[-1].get("iterable"))
        # A small world has few different samples, so this is a note.
        if once and rows >= _LEAST and again >= _REPEATED * rows:
            message = say("{again} of {rows} samples of an epoch looked at came twice or more.", again=again, rows=rows)
            yield data.shown(self, patient, "repeated", message, again / rows, severity=Severity.NOTE)
