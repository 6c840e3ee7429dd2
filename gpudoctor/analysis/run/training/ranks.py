"""What the ranks have in common and what not: samples, batches of an epoch, gradients, weights."""

import math
from itertools import chain
from typing import Any

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.training import integer
from gpudoctor.analysis.run.training.schedule import ended
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.records import frozen
from gpudoctor.model.run import CardLine
from gpudoctor.model.signs.recording import Process, Record, Recording

_LEAST = 3
"""Batches and steps that are compared before they count as the same, or as apart."""
_FIRST = 8
"""Batches that are compared: later ones are counted apart by ranks that look at other steps."""
_TIMES = 4
"""Samples that several ranks read, for each that comes twice on one of them: texts that are alike do both."""
_FEW = 0.75
"""Share of the rows that all ranks together read: with less, some are read by none."""
_SHARED, _EQUAL = 1e-3, 1e-6
"""By how much of the sum of all amounts gradients and weights may differ that are the same."""
_WEIGHTS, _GRADIENTS = 0, 2
"""Where in `sums` the sum of the values is; that of their amounts is behind it."""
_BEGUN = 0.5
"""Weights that begin alike differ by less after a step: this over the root of their number."""


@frozen
class Read:
    """The samples of the first epoch that were looked at."""

    rows: int
    common: int
    """Those that another rank read, too."""
    unsplit: bool
    """Whether that is no chance."""
    same: bool
    """Whether each rank reads them in the same batches."""


@once
def read(recording: Recording) -> Read | None:
    """What the ranks read; None where no samples of theirs can be compared."""
    if len(recording.ranks) < 2:
        return None
    drawn = [_rows(process) for process in recording.ranks]
    shared = set.intersection(*map(set, drawn))
    first = sorted(shared)[:_FIRST]
    if not first:
        return None
    own = [list(chain.from_iterable(rank.values())) for rank in drawn]
    rows = sum(len(numbers) for numbers in own)
    # A sample counts once on each rank that reads it.
    kinds = sum(len(set(numbers)) for numbers in own)
    common = kinds - len(set().union(*own))
    twice = rows - kinds
    unsplit = common >= max(_FIRST, _TIMES * twice)
    alike = all(rank[at] == drawn[0][at] for rank in drawn for at in first)
    same = unsplit and alike and len(first) >= _LEAST
    return Read(rows=rows, common=common, unsplit=unsplit, same=same)


def _rows(process: Process) -> dict[int, tuple[int, ...]]:
    """The samples of the training loader's batches in the first epoch, by draw."""
    training = (item.get("id") for item in process.of("loader") if item.get("role") == "training")
    loader = next(training, None)
    records = [item for item in process.of("batch") if item.get("loader") == loader and item.get("hashes")]
    if not records:
        return {}
    epoch = records[0].get("epoch")
    return {integer(item, "draw"): tuple(item.get("hashes")) for item in records if item.get("epoch") == epoch}


@frozen
class Split:
    """How the data of the training loader is split."""

    each: tuple[int | None, ...]
    """Batches of an epoch, by rank."""
    size: int | None
    """Rows of the data sets of all ranks, where these are apart, else of one; None where it does not tell."""
    read: int | None
    """Rows that all ranks together read in an epoch, at most."""
    by: str
    """The class of what leaves a rank its part last; "" where nothing is known to."""
    twice: bool
    """Whether the data is split by rank more than once: no rank reads the rest."""
    whole: bool
    """Whether nothing splits it, and each rank goes through all of it."""


@once
def split(recording: Recording) -> Split | None:
    """How the training data is split over the ranks; None for one rank."""
    told = [process.last("split") for process in recording.ranks]
    records = [record for record in told if record is not None]
    if len(records) < 2 or len(records) < len(told):
        return None
    firsts = [record.get("first") for record in records]
    each = [record.get("each") for record in records]
    sizes = [record.get("size") for record in records]
    # Each rank may have a data set of its own, which begins with another sample.
    apart = len(set(firsts)) > 1 and None not in firsts and None not in sizes
    size = sum(sizes) if apart else sizes[0]
    batch = records[0].get("batch")
    rows = sum(each) * int(batch) if batch and None not in each else None
    few = rows is not None and size is not None and rows <= _FEW * size
    # What splits the data, the last one first, and by how many ranks.
    parts = records[0].get("splits") or [("", 0)]
    by_rank = sum(many == len(records) for _, many in parts)
    splits = by_rank + 1 if apart else by_rank
    whole = rows is not None and size is not None and not splits and rows >= size * (len(records) - 1 + _FEW)
    return Split(
        each=tuple(each),
        size=size,
        read=rows,
        by=str(parts[0][0]),
        twice=splits > 1 and (few or rows is None),
        whole=whole,
    )


@once
def by_data(recording: Recording) -> bool:
    """Whether each rank is a copy of the same model, so that it is to have data of its own."""
    ranks = recording.ranks
    sizes = {str(item.get("world_size") or len(ranks)) for rank in ranks for item in rank.of("ddp")}
    if sizes - {str(len(ranks))}:
        return False  # copies among some of the ranks only
    models = all(any(item.get("wrapped") == "DDP" for item in rank.of("model")) for rank in ranks)
    made = all(any(item.get("ddp") for item in rank.of("ranks")) for rank in ranks)
    return models or made


@once
def uneven(recording: Recording) -> bool:
    """Whether the ranks have different numbers of batches, in a run that did not come to its end."""
    data = split(recording)
    if data is None or ended(recording):
        return False
    numbers = {each for each in data.each if each is not None}
    return len(numbers) > 1 and by_data(recording)


@frozen
class Apart:
    """What the sums of the same parameter and its gradient say."""

    record: Record
    looks: int
    gradients: int
    """Looks in which the gradients differ between ranks."""
    alone: bool
    """Whether nothing is shared, where it should be."""
    begun: bool
    """Whether all gradients are the same, and the weights never are: they were not when the training began."""


@once
def apart(recording: Recording) -> Apart | None:
    """Whether gradients and weights of the ranks are the same; None where that was not seen."""
    told = [[item for item in process.of("ranks") if item.get("sums")] for process in recording.ranks]
    if len(told) < 2:
        return None
    looks = [{integer(item, "step"): item for item in items} for items in told]
    common = set.intersection(*map(set, looks))
    rows = [[one[step] for one in looks] for step in sorted(common)]
    known = {(item.get("of"), item.get("name"), item.get("size")) for row in rows for item in row}
    if len(known) != 1 or rows[0][0].get("of") != len(looks):
        return None  # other parameters, or not all ranks
    last = rows[-1][0]
    gradients = sum(_distance(row, _GRADIENTS) > _SHARED for row in rows)
    weights = sum(_distance(row, _WEIGHTS) > _EQUAL for row in rows)
    spread = _BEGUN / math.sqrt(last.get("size") or 1)
    begun_alike = last.get("grouped") and _distance(rows[0], _WEIGHTS) <= spread
    always = len(rows) >= _LEAST and gradients == weights == len(rows)
    alone = always and bool(last.get("ddp") or begun_alike)
    begun = len(rows) >= _LEAST and weights == len(rows) and not gradients
    return Apart(record=last, looks=len(rows), gradients=gradients, alone=alone, begun=begun)


def _distance(row: list[Record], column: int) -> float:
    """How far the sums lie apart, in parts of the sum of all amounts; 0 where a rank has none that is finite."""
    sums = [item.get("sums")[column : column + 2] for item in row]
    every = list(chain.from_iterable(sums))
    if any(value is None or not math.isfinite(value) for value in every):
        return 0.0
    plain = [float(value) for value, _ in sums]
    amounts = [float(value) for _, value in sums]
    most = max(amounts)  # the gradients of a classifier's last layer add up to 0
    if not most:
        return 0.0
    farthest = max(max(plain) - min(plain), most - min(amounts))
    return farthest / most


def ranks(recording: Recording) -> CardLine | None:
    """What each rank read, and whether the ranks stay one model."""
    if len(recording.ranks) < 2:
        return None
    parts: list[str] = []
    facts: dict[str, Any] = {"ranks": len(recording.ranks)}
    rows = read(recording)
    if rows is not None:
        facts["same_batches"] = rows.same
        facts["looked_at"] = rows.rows
        facts["common"] = rows.common
        if rows.same:
            parts.append(say("all {ranks} read the same batches", **facts))
        elif rows.common:
            parts.append(say("{ranks} ranks, {common} of {looked_at} samples read by several", **facts))
        else:
            parts.append(say("{ranks} ranks, samples of their own", **facts))
    data = split(recording)
    if data is not None and None not in data.each:
        numbers = sorted({each or 0 for each in data.each})
        parts.append(say("{each} batches an epoch", each=concatenated("/", map(str, numbers))))
        facts.update(each=list(data.each), read=data.read, size=data.size)
    weights = apart(recording)
    if weights is not None:
        facts.update(looks=weights.looks, gradients_apart=weights.gradients)
        if weights.gradients:
            parts.append(say("gradients apart in {gradients_apart} of {looks} looks", **facts))
        else:
            parts.append(say("gradients shared"))
    return CardLine(name="ranks", text=concatenated("; ", parts), facts=facts) if parts else None
