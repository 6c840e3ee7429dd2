"""TRAIN003: inputs that are unlike what the model expects."""

from collections.abc import Iterator, Sequence

from gpudoctor.analysis.run.curves import of_first_rank
from gpudoctor.analysis.run.training import data, integer
from gpudoctor.lang import say
from gpudoctor.model import Check, Code, Finding, Patient, Reads, Severity
from gpudoctor.model.signs.recording import Record
from gpudoctor.model.unavailable import Unavailable
from gpudoctor.text import number, percent

_IMAGE = (1, 3, 4)
"""Channels of an image."""
_SMALL = 8
"""Pixels of a side at least."""
_BRIGHT, _WHITE = 100.0, 255.0
"""The greatest value of raw pixels, at least and at most."""
_DARK = 1.0
"""The mean of raw pixels is above that of any that were scaled to 1."""
_MIXED = 0.8
"""Difference of pixels as far apart as there are channels, by that of neighbours: natural images have more than 1."""
_FLAT = 256
"""Pixels of an image in a row at least, for a layer that takes no pictures."""
_SOME, _LEAST = 8, 32
"""Rows of a batch, and samples, that are compared at least."""
_CONSTANT = 0.95
"""Share of numbers that are the same in all samples: borders of MNIST are a third."""
_FLAT_RANGE = 0.02
"""Range of all numbers by the largest, below which they are taken for one: pixels that were scaled twice have 0.008."""
_REPEATED, _SEEN, _JUMPS = 0.1, 0.05, 0.01
"""Share of samples that come again; share of padding in sight; share of tokens before which positions jump."""
_TEXT = 0.5
"""Share of hidden neighbours that differ: of padding none do, of text nearly all."""


class InputsUnlike(Check):
    """The model is given inputs that it was not made for.

    What it finds:
        In a recording, at the first layer, the model's call or the loader:
        - pixels from 0 to 255
        - images with channels last in a convolution, also such that were given another shape by `view`
        - features that are constant, or not finite
        - padding that attention sees, and text that the attention mask of transformers hides
        - position ids that jump, or start again where no text ends; as a note, such that never start again
        - samples that come again within an epoch
        - targets below 0 or above 1 of a loss over probabilities
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
        calls = data.calls(patient.recording)
        layers = calls["layer"]
        seen = data.looks(patient.recording).get(data.TRAINING)
        outside = of_first_rank(patient.recording, "outside")[-1:]
        if seen is None and not layers and not outside:
            raise Unavailable(say("no batch was seen in the recording"))
        for item in outside:
            message = say(
                "A binary cross-entropy takes targets from 0 to 1, and {found:,} of its calls got {least:.3g} to "
                "{most:.3g}.",
                found=integer(item, "found"),
                least=item.get("least"),
                most=item.get("most"),
            )
            breaks = say("such a loss has no least value")
            yield data.shown(self, patient, "targets", message, item.get("most"), breaks=breaks)
        if calls["mask"]:
            yield from self._hidden(patient, data.Looks(records=calls["mask"]))
        if layers:
            yield from self._layer(patient, data.Looks(records=layers))
        if seen is not None:
            if calls["ids"]:
                yield from self._attention(patient, seen, calls["ids"])
            yield from self._positions(patient, seen)
            yield from self._repeated(patient, seen)

    def _hidden(self, patient: Patient, masks: data.Looks) -> Iterator[Finding]:
        """Tokens that the attention mask hides and that are no padding, for neighbours of them differ."""
        share = masks.total("hidden") / max(1, masks.total("of"))
        pairs = masks.total("pairs")
        if share >= _SEEN and masks.total("differ") >= _TEXT * pairs > 0:
            message = say(
                "The attention mask hides {share} of the tokens, and they are text, not padding: {differ:,} of "
                "{pairs:,} hidden neighbours differ.",
                share=percent(share),
                differ=masks.total("differ"),
                pairs=pairs,
            )
            yield data.shown(self, patient, "hidden", message, share)

    def _layer(self, patient: Patient, layers: data.Looks) -> Iterator[Finding]:
        """What the first layer with weights is given."""
        of = layers.total("of")
        bad = of - layers.total("finite")
        if bad:
            layer = str(layers.records[-1].get("layer"))
            message = say("{bad:,} of {of:,} values that {layer} is given are not finite.", bad=bad, of=of, layer=layer)
            breaks = say("the outputs are no numbers")
            yield data.shown(self, patient, "unreal", message, bad / of, breaks=breaks)
            return
        yield from self._pixels(patient, layers)
        yield from self._channels(patient, layers.records[-1])
        yield from self._constant(patient, layers)

    def _pixels(self, patient: Patient, layers: data.Looks) -> Iterator[Finding]:
        """Whole numbers from 0 to 255, in the shape of pictures."""
        last = layers.records[-1]
        least = min(float(item.get("least") or 0.0) for item in layers.records)
        most = max(float(item.get("most") or 0.0) for item in layers.records)
        mean = float(last.get("mean") or 0.0)
        whole = last.get("rounded") == last.get("of")
        if not whole or least < 0.0 or not _BRIGHT <= most <= _WHITE or mean <= _DARK:
            return
        shape = _shape(last)
        pictures = shape[1] in _IMAGE if _convolves(last) else shape[-1] >= _FLAT
        if pictures:
            message = say("The first layer is given raw pixels, up to {most}.", most=number(most))
            # Normalisation behind the layer takes the scale out again.
            normalised = "Norm" in f"{last.get('layer')} {last.get('next')}"
            severity = Severity.NOTE if normalised else None
            yield data.shown(self, patient, "pixels", message, most, severity=severity)

    def _channels(self, patient: Patient, last: Record) -> Iterator[Finding]:
        """Images with channels last, or that only have the shape of channels first."""
        shape = _shape(last)
        mixed = float(last.get("mixed") or 0.0)
        if _convolves(last) and shape[1] in _IMAGE and 0 < mixed < _MIXED:
            message = say(
                "In the first convolution's images, pixels {channels} apart differ {share} as much as neighbours. The "
                "colours of a pixel lie side by side.",
                channels=shape[1],
                share=percent(mixed),
            )
            breaks = say("the convolution sees scrambled images")
            yield data.shown(self, patient, "mixed", message, mixed, breaks=breaks)
        if not _convolves(last) or len(shape) != 4:
            return
        _, height, width, channels = shape
        if channels in _IMAGE and height == width >= _SMALL:
            sizes = " x ".join(map(number, shape))
            message = say("The first convolution is given {sizes}: the channels are last.", sizes=sizes)
            breaks = say("the convolution slides over columns and channels")
            yield data.shown(self, patient, "last", message, channels, breaks=breaks)

    def _constant(self, patient: Patient, layers: data.Looks) -> Iterator[Finding]:
        """Numbers that are the same in each sample of a batch."""
        wide = [item for item in layers.records if integer(item, "rows") >= _SOME]
        if data.Looks(records=tuple(wide)).total("rows") < _LEAST:
            return
        least = min(float(item.get("least") or 0.0) for item in wide)
        most = max(float(item.get("most") or 0.0) for item in wide)
        part = (most - least) / max(abs(least), abs(most), 1e-30)
        if 0 < part < _FLAT_RANGE:
            message = say(
                "All values of the first layer's input lie between {least:.4g} and {most:.4g}: they hardly differ.",
                least=least,
                most=most,
            )
            yield data.shown(self, patient, "constant", message, part)
            return
        shares = []
        for item in wide:
            alike = integer(item, "constant") * int(item.get("rows"))
            shares.append(alike / int(item.get("of")))
        share = min(shares)
        if share >= _CONSTANT:
            message = say("{share} of the first layer's input is the same in all samples.", share=percent(share))
            same = say("all samples are alike to the model") if share == 1.0 else ""
            yield data.shown(self, patient, "constant", message, share, breaks=same)

    def _attention(self, patient: Patient, seen: data.Looks, calls: Sequence[Record]) -> Iterator[Finding]:
        """Padding that no mask hides."""
        last = calls[-1]
        mask = last.get("mask")
        masked = mask == "attention_mask" and seen.records[-1].get("masked")
        takes_mask = last.get("takes_mask") or any(item.get("attention") is False for item in calls)
        pads = seen.total("seen_before")
        if not last.get("causal"):  # a causal model sees no padding that comes after the text
            pads += seen.total("seen_after")
        share = pads / max(1, seen.total("tokens"))
        if share < _SEEN:
            return
        if masked:
            how = say("its mask does not hide them")
        elif takes_mask and not mask:
            how = say("it is given no mask")
        else:
            return
        message = say("Attention sees {seen:,} padding tokens: {how}.", seen=pads, how=how)
        yield data.shown(self, patient, "attended", message, share)

    def _positions(self, patient: Patient, seen: data.Looks) -> Iterator[Finding]:
        """Positions that do not go on by one."""
        jumps = seen.total("jumps")
        tokens = seen.total("tokens")
        if jumps > _JUMPS * tokens:
            message = say("Position ids jump {jumps:,} times within {tokens:,} tokens.", jumps=jumps, tokens=tokens)
            yield data.shown(self, patient, "positions", message, jumps / tokens)
        rows, run_on = seen.total("rows"), seen.total("run_on")
        # The turns of one talk end within a row as well, so this is a note.
        if run_on >= rows / 2 > 0:
            message = say(
                "Position ids run on over the texts that end within {run_on} of {rows} rows.", run_on=run_on, rows=rows
            )
            yield data.shown(self, patient, "positions", message, run_on / rows, severity=Severity.NOTE)

    def _repeated(self, patient: Patient, seen: data.Looks) -> Iterator[Finding]:
        """Samples that come again within an epoch of a sampler that draws each once."""
        loader = seen.records[-1].get("loader")
        made = [item for rank in patient.recording.ranks for item in rank.of("loader")]
        records = [item for item in made if item.get("id") == loader]
        if not records or not (records[-1].get("order") or records[-1].get("iterable")):
            return
        overlap = data.overlap(patient.recording)
        again, rows = overlap.again, overlap.epoch
        # A small world has few different samples, so this is a note.
        if rows >= _LEAST and again >= _REPEATED * rows:
            message = say("{again} of {rows} samples of an epoch looked at came twice or more.", again=again, rows=rows)
            yield data.shown(self, patient, "repeated", message, again / rows, severity=Severity.NOTE)


def _shape(layer: Record) -> list[int]:
    """The sizes of what a layer was given."""
    return [int(size) for size in layer.get("shape") or ()]


def _convolves(layer: Record) -> bool:
    """Whether a layer is a convolution over two dimensions or more: its weights have two more."""
    return integer(layer, "dims") >= 4
