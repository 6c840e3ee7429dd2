"""The card's lines on batches, labels and evaluation, and what checks ask of them: records `batch` and `call`."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.curves import of_first_rank
from gpudoctor.analysis.run.line_costs import place_of
from gpudoctor.analysis.run.steady_state import padding, steady
from gpudoctor.analysis.run.training import integer, told
from gpudoctor.analysis.run.training.gradients import newest_of
from gpudoctor.analysis.run.training.logged_numbers import logged
from gpudoctor.lang import say, template
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Finding, Patient, Severity
from gpudoctor.model.records import frozen
from gpudoctor.model.run import CardLine
from gpudoctor.model.signs.recording import Process, Record, Recording
from gpudoctor.text import number, percent

TRAINING, EVALUATION = "training", "evaluation"
_PACKED = 0.9
"""From this share of rows without padding on they are packed, and none of them was cut."""
_WIDTH = 8
"""Numbers of a sample below which some are equal by chance."""
_ALL = 0.8
"""Part of the common samples to be expected of an evaluation on the training set, from which on it is one."""
_COPIED = 0.9
"""Share of the labels that are tokens of their own row, from which on the labels are that row."""
_ROUNDED = 0.005
"""Shares of right labels that lie farther apart are different for those who read half a percent."""
_EXACT = 1e-6
"""Shares that lie nearer are the same number, computed in another order."""


@frozen
class Looks:
    """Batches of a role that were looked at, on the first rank that has some."""

    records: tuple[Record, ...]

    def total(self, name: str) -> int:
        """The sum of a field."""
        return sum(int(record.get(name) or 0) for record in self.records)

    def holding(self, name: str) -> "Looks | None":
        """Those with something in a field; None where none has."""
        records = tuple(item for item in self.records if item.get(name) not in (None, []))
        return Looks(records=records) if records else None


@once
def looks(recording: Recording) -> Mapping[str, Looks]:
    """By role."""
    found: dict[str, Looks] = {}
    for process in recording.ranks:
        by_role = _by_role(process)
        mine = {role: Looks(records=tuple(records)) for role, records in by_role.items() if records}
        found = mine | found  # an earlier rank goes before
    return found


def _by_role(process: Process) -> Mapping[str, Sequence[Record]]:
    """The batches of a rank that were looked at; one that no loader made has a role of its own."""
    loaders = {item.get("id"): item for item in process.of("loader")}
    found: dict[str, list[Record]] = {TRAINING: [], EVALUATION: []}
    for item in process.of("batch"):
        loader = loaders.get(item.get("loader"), item)
        role = loader.get("role")
        if role in found:
            found[role].append(item)
    return found


def shown(
    check: Check,
    patient: Patient,
    how: str,
    message: str,
    share: float,
    role: str = TRAINING,
    breaks: str = "",
    severity: Severity | None = None,
) -> Finding:
    """The finding of what batches show, at the line that makes them: an error if that breaks the result."""
    found = looks(patient.recording).get(role)
    place = place_of(found.records[0]) if found is not None else None
    return told(check, patient, how, message, share, place, severity=severity, breaks=breaks)


@once
def calls(recording: Recording) -> Mapping[str, tuple[Record, ...]]:
    """What the model with most calls was called with, by kind, on the first rank."""
    found = recording.ranks[0].of("call") if recording.ranks else ()
    names = [item.get("model") for item in found]
    model = max(names, key=names.count, default=None)
    by_kind: dict[str, list[Record]] = {"ids": [], "mask": [], "layer": [], "targets": []}
    for item in found:
        kind = item.get("kind")
        if kind in by_kind and item.get("model") == model:
            by_kind[kind].append(item)
    return {kind: tuple(its) for kind, its in by_kind.items()}


@frozen
class Overlap:
    """Samples that were seen more than once."""

    common: int
    """Samples of an evaluation that the training has, too."""
    looked_at: int
    """Samples of that evaluation that were looked at."""
    again: int
    """Samples that came again in the epoch of the training of which most were looked at."""
    epoch: int
    """All samples of that epoch that were looked at."""
    chance: float
    """Common samples to be expected of a set of few different texts, by how many come again in the training."""


@once
def overlap(recording: Recording) -> Overlap:
    """What evaluation and training have in common, and what comes again in an epoch of the training."""
    training = _hashes(recording, TRAINING)
    trained = set[int]().union(*training)
    evaluations = [set(hashes) for hashes in _hashes(recording, EVALUATION)]
    shares = [len(samples & trained) / len(samples) for samples in evaluations]
    # Of training samples alone, as many are common as were looked at. Beside another evaluation that is on purpose.
    expected = len(trained) / max(1, _samples(recording))
    others = [place for place, share in enumerate(shares) if not _ALL * expected <= share <= expected / _ALL]
    others = others or [*range(len(shares))]
    seen = evaluations[max(others, key=shares.__getitem__)] if shares else set[int]()
    fullest = max(training, key=len, default=[])
    again = len(fullest) - len(set(fullest))
    pairs = len(fullest) * (len(fullest) - 1) / 2
    # Two rows of real numbers are not equal by chance.
    chance = again / max(1.0, pairs) * len(seen) * len(trained) if _whole(recording) else 0.0
    return Overlap(common=len(seen & trained), looked_at=len(seen), again=again, epoch=len(fullest), chance=chance)


def _samples(recording: Recording) -> int:
    """Samples of the training's loader; 0 where it does not tell."""
    found = looks(recording).get(TRAINING)
    return max((integer(item, "samples") for item in found.records), default=0) if found is not None else 0


def _whole(recording: Recording) -> bool:
    """Whether the samples of the training are whole numbers only."""
    found = looks(recording).get(TRAINING)
    shapes = found.records[-1].get("shapes") or () if found is not None else ()
    return not any("float" in kind for _, kind, _ in shapes)


def _hashes(recording: Recording, role: str) -> list[list[int]]:
    """Those of the samples of enough numbers not to be equal by chance, by loader and its epoch."""
    found = looks(recording).get(role)
    if found is None:
        return []
    groups: dict[tuple[Any, Any], list[int]] = {}
    for item in found.records:
        hashes = item.get("hashes")
        # Each evaluation is on the same samples: all of a loader's are one.
        epoch = item.get("epoch") if role == TRAINING else 0
        group = (item.get("loader"), epoch)
        if hashes and integer(item, "width") >= _WIDTH:
            groups.setdefault(group, []).extend(hashes)
    return list(groups.values())


def padded(recording: Recording) -> Iterator[tuple[str, float, float]]:
    """Logged numbers that are shares of right labels of all positions, and what the share is of those with a label.

    transformers hands -100 to `compute_metrics` where nothing is to be predicted, and predictions at these places, too.
    """
    memory = recording.ranks[0].of("memory") if recording.ranks else ()
    kept = next((item for item in memory if item.get("shares")), None)
    numbers = logged(recording)
    if kept is None or numbers is None:
        return
    real, *shares = kept.get("shares")
    for name, _, points in numbers.get("series"):
        _, value = points[0]
        differs = abs(value - real) > _ROUNDED
        if differs and any(abs(value - share) < _EXACT for share in shares):
            yield name, value, real


def unlabelled(found: Looks) -> int:
    """Batches without any label: their mean loss is 0 / 0."""
    return sum(item.get("labels") == 0 for item in found.records)


def labels_copied(found: Looks) -> bool:
    """Whether labels are the tokens themselves, or the next ones: no masked tokens, no classes.

    Both are usual: a model that shifts them is given the same tokens, another one those ahead.
    """
    same = found.total("same")
    ahead = found.total("ahead")
    most = max(same, ahead)
    return most > 0 and most >= _COPIED * found.total("labels")


def batch(recording: Recording) -> CardLine | None:
    """Rows and tokens of a step, padding, rows that were cut.

    `8 x about 310 tokens x 4 accumulated x 2 ranks = about 19,840 tokens a step; 12 % padding`.
    """
    found = looks(recording).get(TRAINING)
    shape = _shape(recording, found)
    if not shape:
        return None
    # What a model is called with without a loader are ids of tokens.
    tokens = found is None or found.records[-1].get("tokens") is not None
    widths = _widths(found, shape) if tokens else [1]
    width = sum(widths) / len(widths)
    accumulated = _accumulated(recording.ranks[0])
    ranks = len(recording.ranks)
    rows = shape[0]
    a_step = round(rows * accumulated * ranks * width)
    facts: dict[str, Any] = {"shape": list(shape), "accumulated": accumulated, "ranks": ranks, "a_step": a_step}
    about = template("about {number}") if len(set(widths)) > 1 else template("{number}")
    if tokens:
        each = say(about, number=number(round(width)))
        text = say("{rows} x {tokens} tokens", rows=number(rows), tokens=each)
    else:
        text = say("{rows} samples", rows=number(rows))
    if accumulated > 1:
        text = say("{batch} x {accumulated} accumulated", batch=text, accumulated=accumulated)
    if ranks > 1:
        text = say("{batch} x {ranks} ranks", batch=text, ranks=ranks)
    if a_step == rows:
        parts = [say("{batch} a step", batch=text)]
    else:
        total = say(about, number=number(a_step))
        kind = say("tokens") if tokens else say("samples")
        parts = [say("{batch} = {total} {kind} a step", batch=text, total=total, kind=kind)]
    if found is not None and tokens:
        parts += _padding(recording, found, facts)
    return CardLine(name="batch", text=concatenated("; ", parts), facts=facts)


def _widths(found: Looks | None, shape: Sequence[int]) -> list[int]:
    """Tokens of a row, of each batch that was looked at; without a loader of the call's shape."""
    if found is None:
        return [shape[1]]
    return [integer(item, "width") for item in found.records]


def _accumulated(process: Process) -> int:
    """How many batches a step takes."""
    made = sum(process.steps.column("count"))
    batches = process.steps.column("batches")
    drawn = sum(value for value in batches if not math.isnan(value))
    if drawn:
        return max(1, round(drawn / made)) if made else 1
    # Nobody counts batches without a loader.
    seen = newest_of(process, "gradients")
    micro = seen.get("micro") if seen is not None else None
    return max(1, int(micro or 1))


def _padding(recording: Recording, found: Looks, facts: dict[str, Any]) -> Iterator[str]:
    """The share of padding, and rows that were cut."""
    last = found.records[-1]
    # Padding that the mask does not hide is padding, too, and only the batches that were looked at show it.
    bare = found.total("seen_before") + found.total("seen_after")
    counted = padding(map(steady, recording.ranks)) if not bare else None
    if counted is not None:
        facts["padding"] = counted
        yield say("{share} padding", share=percent(counted))
    elif last.get("masked") or last.get("pad") is not None:
        known = found.holding("pad") or found  # only a model's config may say it, from its first call on
        share = known.total("padding") / max(1, known.total("tokens"))
        facts["padding"] = share
        text = template("{share} padding in {batches} batches looked at")
        yield say(text, share=percent(share), batches=len(known.records))
    # Many rows that are as wide as the widest one were cut there, unless nearly all are: then they are packed.
    widest = max(integer(item, "width") for item in found.records)
    at_widest = [item for item in found.records if item.get("width") == widest]
    cut = Looks(records=tuple(at_widest)).total("cut")
    rows = found.total("rows")
    if cut and found.total("full") < _PACKED * rows:
        facts["cut"] = cut / rows
        facts["width"] = widest
        text = template("{cut} of {rows} rows cut at {width}")
        yield say(text, cut=cut, rows=rows, width=number(widest))


def _shape(recording: Recording, found: Looks | None) -> Sequence[int]:
    """Of the largest batch's tokens or first tensor; without a loader of what the model is called with."""
    if found is None:
        shapes_called = (item.get("shape") for item in calls(recording)["ids"])
        called = [list(shape) for shape in shapes_called if shape]
        return max(called, key=lambda shape: shape[0] * shape[1], default=[])
    largest = max(found.records, key=_rows)
    shapes: dict[str, Sequence[int]] = {name: shape for name, _, shape in largest.get("shapes") or () if shape}
    if shapes.get("input_ids"):
        return shapes["input_ids"]
    return next(iter(shapes.values()), [])


def _rows(batch: Record) -> list[int]:
    """The length of a batch's longest tensor, in a list that is empty for tensors without a dimension."""
    lengths: Iterator[list[int]] = (shape[:1] for _, _, shape in batch.get("shapes") or ())
    return max(lengths, default=[0])


def labels(recording: Recording) -> CardLine | None:
    """What share of the tokens is trained, and rows without a label; of classes how many there are."""
    whole = looks(recording).get(TRAINING)
    found = whole.holding("labels") if whole is not None else None
    if found is None:
        return _classes(recording)
    rows = found.total("rows")
    none = found.total("unlabelled")
    real = found.total("tokens") - found.total("padding")
    share = found.total("labels") / max(1, real)
    # Labels of padding count, too, and may be more than the real tokens.
    shown = percent(min(1.0, share))
    parts = [say("{share} of the tokens looked at are trained", share=shown)]
    if none:
        parts.append(say("{none} of {rows} rows have no label", none=none, rows=rows))
    end_tokens = sorted({end for item in found.records for end in item.get("eos") or ()})
    trained_ends = found.total("trained_ends")
    if end_tokens and found.total("ends") and not trained_ends:
        named = ", ".join(map(str, end_tokens))
        parts.append(say("the end token ({ends}) is never among them", ends=named))
    facts: dict[str, Any] = {
        "share": share,
        "rows": rows,
        "unlabelled": none,
        "ends": trained_ends,
        "end_tokens": end_tokens,
    }
    return CardLine(name="labels", text=concatenated("; ", parts), facts=facts)


def _classes(recording: Recording) -> CardLine | None:
    """The line on labels that are classes, which the loss was given."""
    seen = of_first_rank(recording, "labels")
    classes = integer(seen[-1], "classes") if seen else 0
    if not classes:
        return None
    text = say("one of {classes} classes a sample", classes=classes)
    return CardLine(name="labels", text=text, facts={"classes": classes})


def evaluation(recording: Recording) -> CardLine | None:
    """How often, on how many samples, of which the training has some, and in which mode."""
    if not recording.ranks:
        return None
    process = recording.ranks[0]
    tested = looks(recording).get(EVALUATION)
    at = _evaluating(process)
    if not at and tested is None:
        return None
    parts: list[str] = []
    facts: dict[str, Any] = {}
    # Steps in a row are one evaluation.
    between = [second - first for first, second in pairwise(at) if second - first > 1]
    if between:
        every = int(median(between))
        facts["every"] = every
        parts.append(say("every {steps} steps", steps=number(every)))
    samples = _evaluated(tested) if tested is not None else 0
    if samples:
        facts["samples"] = samples
        parts.append(say("on {samples} samples", samples=number(samples)))
    seen = overlap(recording)
    facts["looked_at"] = seen.looked_at
    facts["common"] = seen.common
    if seen.common:
        text = template("{common} of {rows} looked at also seen in training")
        parts.append(say(text, common=seen.common, rows=seen.looked_at))
    numeric = {item.get("kind_of") for item in process.of("numeric")}
    if "train-evaluation" in numeric:
        facts["mode"] = "train"
        parts.append(say("model as in training"))
    if not parts:
        return None
    return CardLine(name="evaluation", text=concatenated(", ", parts), facts=facts)


def _evaluating(process: Process) -> list[int]:
    """The steps in which time went into an evaluation."""
    indices = process.steps.column("index")
    taken = process.steps.column("evaluation")
    return [int(index) for index, seconds in zip(indices, taken, strict=False) if seconds > 0]


def _evaluated(tested: Looks) -> int:
    """Samples of the first evaluation: some trainers make a loader for each."""
    step = tested.records[0].get("step")
    first = [item for item in tested.records if item.get("step") == step]
    by_loader = {item.get("loader"): integer(item, "samples") for item in first}
    return sum(by_loader.values())
