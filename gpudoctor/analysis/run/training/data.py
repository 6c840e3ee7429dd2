"""The card's lines on batches, labels and evaluation, and what checks ask of them: records `batch` and `call`."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.curves import numerics
from gpudoctor.analysis.run.line_costs import place_of
from gpudoctor.analysis.run.steady_state import padding, steady
from gpudoctor.analysis.run.training import told
from gpudoctor.analysis.run.training.gradients import newest_of
from gpudoctor.analysis.run.training.logged_numbers import logged
from gpudoctor.lang import say, template
from gpudoctor.lang.message import concatenated
from gpudoctor.model import Check, Finding, Patient, Severity
from gpudoctor.model.records import frozen
from gpudoctor.model.run import CardLine
from gpudoctor.model.signs.recording import Record, Recording
from gpudoctor.text import count, number, percent

TRAINING, EVALUATION = "training", "evaluation"
_PACKED, _WIDTH = 0.9, 8
"""From this share of rows without padding on they are packed, and none of them was cut; numbers of a sample below which
some are equal by chance.
"""


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
        loaders = {item.get("id"): item for item in process.of("loader")}
        by_role = [(loaders.get(item.get("loader"), item).get("role"), item) for item in process.of("batch")]
        mine = {role: tuple(item for its, item in by_role if its == role) for role in (TRAINING, EVALUATION)}
        found = {role: Looks(records=records) for role, records in mine.items() if records} | found
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
    severity = severity or (Severity.ERROR if breaks else Severity.WARNING)
    return told(check, patient, how, message, share, place, severity=severity, breaks=breaks)


@once
def calls(recording: Recording) -> Mapping[str, tuple[Record, ...]]:
    """What the model with most calls was called with, by kind, on the first rank."""
    found = [item for process in recording.ranks[:1] for item in process.of("call")]
    names = [item.get("model") for item in found]
    mine = [item for item in found if item.get("model") == max(names, key=names.count)]
    return {kind: tuple(item for item in mine if item.get("kind") == kind) for kind in ("ids", "layer", "targets")}


@once
def overlap(recording: Recording) -> tuple[int, int, int, int]:
    """Samples of an evaluation that the training has, too, and those of it that were looked at; samples of the epoch of
    which most were looked at that came again, and all of these.
    """
    training, evaluations = (_hashes(recording, role) for role in (TRAINING, EVALUATION))
    trained, fullest = set().union(*training), max(training, key=len, default=[])
    # An evaluation on the training samples beside one on others is there on purpose.
    pairs = [(len(trained.intersection(seen)), len(set(seen))) for seen in evaluations]
    common = min(pairs, key=lambda pair: pair[0] / pair[1], default=(0, 0))
    return *common, len(fullest) - len(set(fullest)), len(fullest)


def _hashes(recording: Recording, role: str) -> list[list[int]]:
    """Those of the samples of enough numbers not to be equal by chance, by loader and its epoch."""
    groups: dict[tuple[Any, Any], list[int]] = {}
    found = looks(recording).get(role)
    for item in found.records if found is not None else ():
        epoch = item.get("epoch") if role == TRAINING else 0
        if int(item.get("width") or 0) >= _WIDTH and item.get("hashes"):
            groups.setdefault((item.get("loader"), epoch), []).extend(item.get("hashes"))
    return list(groups.values())


def padded(recording: Recording) -> Iterator[tuple[str, float, float]]:
    """Logged numbers that are shares of right labels of all positions, and what the share is of those with a label."""
    kept = [item for process in recording.ranks[:1] for item in process.of("memory") if item.get("shares")]
    item = logged(recording)
    for name, _, points in item.get("series") if item is not None and kept else ():
        (real, *shares), value = kept[0].get("shares"), points[0][1]
        if abs(value - real) > 0.005 and any(abs(value - share) < 1e-6 for share in shares):
            yield name, value, real


def unlabelled(found: Looks) -> int:
    """Batches without any label."""
    return sum(item.get("labels") == 0 for item in found.records)


def labels_copied(found: Looks) -> bool:
    """Whether labels are the tokens themselves, or the next ones: no masked tokens, no classes."""
    most = max(found.total("same"), found.total("ahead"))
    return most > 0 and most >= 0.9 * found.total("labels")


def batch(recording: Recording) -> CardLine | None:
    """Rows and tokens of a step, padding, rows that were cut."""
    found = looks(recording).get(TRAINING)
    shape, tokens = _shape(recording, found), found is None or found.records[-1].get("tokens") is not None
    if not shape:
        return None
    steps, ranks = recording.ranks[0].steps, len(recording.ranks)
    of, drawn = sum(steps.column("count")), sum(value for value in steps.column("batches") if value == value)
    seen = newest_of(recording.ranks[0], "gradients") if not drawn else None  # nobody counts batches without a loader
    accumulated = max(1, round(drawn / of) if drawn and of else int((seen.get("micro") if seen else 1) or 1))
    widths = [int(item.get("width") or 0) for item in found.records] if tokens and found is not None else [*shape[1:2]]
    width = sum(widths) / len(widths) if tokens else 1
    about = template("about {number}") if tokens and len({*widths}) > 1 else template("{number}")
    a_step = round(shape[0] * accumulated * ranks * width)
    facts: dict[str, Any] = {"shape": list(shape), "accumulated": accumulated, "ranks": ranks, "a_step": a_step}
    rows, kind = number(shape[0]), say("tokens") if tokens else say("samples")
    text = say("{rows} samples", rows=rows)
    if tokens:
        text = say("{rows} x {tokens} tokens", rows=rows, tokens=say(about, number=number(round(width))))
    if accumulated > 1:
        text = say("{batch} x {accumulated} accumulated", batch=text, accumulated=accumulated)
    if ranks > 1:
        text = say("{batch} x {ranks} ranks", batch=text, ranks=ranks)
    whole = say("{batch} = {total} {kind} a step", batch=text, total=say(about, number=number(a_step)), kind=kind)
    parts = [whole if a_step != shape[0] else say("{batch} a step", batch=text)]
    if found is not None and tokens:
        parts += _padding(recording, found, facts)
    elif found is not None and (ranged := found.holding("most")) is not None:
        ends = [float(item.get(name)) for item in ranged.records for name in ("least", "most")]
        facts |= {"least": min(ends), "most": max(ends)}
        each = " x ".join(map(number, shape[1:])) if len(shape) > 2 else count(shape[-1] if shape[1:] else 1, "number")
        parts.append(say("each {each}; numbers looked at: {least:.3g} to {most:.3g}", each=each, **facts))
    return CardLine(name="batch", text=concatenated("; ", parts), facts=facts)


def _padding(recording: Recording, found: Looks, facts: dict[str, Any]) -> Iterator[str]:
    """The share of padding, and rows that were cut."""
    # Padding that the mask does not hide is padding, too, and only the batches that were looked at show it.
    bare = found.total("seen_before") + found.total("seen_after")
    counted = padding(map(steady, recording.ranks)) if not bare else None
    if counted is not None:
        facts["padding"] = counted
        yield say("{share} padding", share=percent(counted))
    elif found.records[-1].get("masked") or found.records[-1].get("pad") is not None:
        known = found.holding("pad") or found  # only a model's config may say it, from its first call on
        facts["padding"] = share = known.total("padding") / max(1, known.total("tokens"))
        yield say("{share} padding in {batches} batches looked at", share=percent(share), batches=len(known.records))
    rows, widest = found.total("rows"), max(int(item.get("width") or 0) for item in found.records)
    cut = sum(int(item.get("cut") or 0) for item in found.records if item.get("width") == widest)
    if cut and found.total("full") < _PACKED * rows:
        facts |= {"cut": cut / rows, "width": widest}
        yield say("{cut} of {rows} rows cut at {width}", cut=cut, rows=rows, width=number(widest))


def _shape(recording: Recording, found: Looks | None) -> Sequence[int]:
    """Of the largest batch's tokens or first tensor; without a loader of what the model is called with."""
    if found is None:
        seen = [item.get("shape") for item in calls(recording)["ids"]]
        return max((list(shape) for shape in seen if shape), key=lambda shape: shape[0] * shape[1], default=[])
    largest = max(found.records, key=lambda item: max((shape[2][:1] for shape in item.get("shapes")), default=[0]))
    shapes = {name: shape for name, _, shape in largest.get("shapes") if shape}
    return shapes.get("input_ids") or next(iter(shapes.values()), [])


def labels(recording: Recording) -> CardLine | None:
    """What share of the tokens is trained, and rows without a label; of classes how many there are."""
    whole = looks(recording).get(TRAINING)
    found = whole.holding("labels") if whole is not None else None
    if found is None:
        seen = numerics(recording.ranks[0], "labels") if recording.ranks else ()
        classes = int(seen[-1].get("classes") or 0) if seen else 0
        text = say("one of {classes} classes a sample", classes=classes)
        return CardLine(name="labels", text=text, facts={"classes": classes}) if classes else None
    rows, none = found.total("rows"), found.total("unlabelled")
    share = found.total("labels") / max(1, found.total("tokens") - found.total("padding"))
    ends = sorted({end for item in found.records for end in item.get("eos") or ()})
    parts = [say("{share} of the tokens looked at are trained", share=percent(min(1.0, share)))]
    if none:
        parts.append(say("{none} of {rows} rows have no label", none=none, rows=rows))
    if ends and found.total("ends") and not found.total("trained_ends"):
        parts.append(say("the end token ({ends}) is never among them", ends=", ".join(map(str, ends))))
    facts = {"share": share, "rows": rows, "unlabelled": none, "ends": found.total("trained_ends"), "end_tokens": ends}
    return CardLine(name="labels", text=concatenated("; ", parts), facts=facts)


def evaluation(recording: Recording) -> CardLine | None:
    """How often, on how many samples, of which the training has some, and in which mode."""
    if not recording.ranks:
        return None
    process = recording.ranks[0]
    tested, columns = looks(recording).get(EVALUATION), map(process.steps.column, ("index", "evaluation"))
    at = [int(index) for index, seconds in zip(*columns, strict=False) if seconds > 0]
    if not at and tested is None:
        return None
    between = [second - first for first, second in pairwise(at) if second - first > 1]
    parts, facts = [], dict[str, Any]()
    if between:
        facts["every"] = int(median(between))
        parts.append(say("every {steps} steps", steps=number(facts["every"])))
    records = tested.records if tested is not None else ()
    # Of the first evaluation: some trainers make a loader for each.
    sizes = {item.get("loader"): item.get("samples") for item in records if item.get("step") == records[0].get("step")}
    if samples := sum(int(size or 0) for size in sizes.values()):
        facts["samples"] = samples
        parts.append(say("on {samples} samples", samples=number(samples)))
    common, rows, *_ = overlap(recording)
    facts |= {"looked_at": rows, "common": common}
    if common:
        parts.append(say("{common} of {rows} looked at also seen in training", common=common, rows=rows))
    if any(item.get("kind_of") == "train-evaluation" for item in process.of("numeric")):
        facts["mode"] = "train"
        parts.append(say("model as in training"))
    return CardLine(name="evaluation", text=concatenated(", ", parts), facts=facts) if parts else None
