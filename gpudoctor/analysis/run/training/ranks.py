"""What the ranks have in common and what not: samples, batches of an epoch, gradients, weights."""

import math
from typing import Any

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.training.schedule import ended
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.records import frozen
from gpudoctor.model.run import CardLine
from gpudoctor.model.signs.recording import Process, Record, Recording

_LEAST, _FIRST = 3, 8
"""Batches and steps that are compared before they count as the same, or as apart; batches, of which later ones are
counted apart by ranks that look at other steps.
"""
_TIMES = 4
"""Samples that several ranks read, for each that comes twice on one of them: texts that are alike do both."""
_SHARED, _EQUAL = 1e-3, 1e-6
"""By how much of the sum of all amounts gradients and weights may differ that are the same."""
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
    drawn = [_rows(process) for process in recording.ranks]
    first = sorted(set.intersection(*map(set, drawn)))[:_FIRST] if len(drawn) > 1 else []
    own = [[number for rows in rank.values() for number in rows] for rank in drawn]
    rows, kinds = sum(map(len, own)), sum(len({*numbers}) for numbers in own)
    common = kinds - len(set().union(*own))
    unsplit = common >= max(_FIRST, _TIMES * (rows - kinds))
    same = unsplit and len(first) >= _LEAST and all(rank[at] == drawn[0][at] for rank in drawn for at in first)
    return Read(rows=rows, common=common, unsplit=unsplit, same=same) if first else None


def _rows(process: Process) -> dict[int, tuple[int, ...]]:
    """The samples of the training loader's batches, by draw."""
    loader = next((item.get("id") for item in process.of("loader") if item.get("role") == "training"), None)
    records = [item for item in process.of("batch") if item.get("loader") == loader and item.get("hashes")]
    first = [item for item in records if item.get("epoch") == records[0].get("epoch")]
    return {int(item.get("draw") or 0): tuple(item.get("hashes")) for item in first}


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


@once
def split(recording: Recording) -> Split | None:
    """How the training data is split over the ranks; None for one rank."""
    records = [record for process in recording.ranks if (record := process.last("split")) is not None]
    if len(records) < 2 or len(records) != len(recording.ranks):
        return None
    firsts, each, sizes = ([record.get(name) for record in records] for name in ("first", "each", "size"))
    batch, parts = records[0].get("batch"), records[0].get("splits") or [("", 0)]
    apart = len({*firsts}) > 1 and None not in (*firsts, *sizes)
    size = sum(sizes) if apart else sizes[0]
    rows = sum(each) * int(batch) if batch and None not in each else None
    few = rows is not None and size is not None and rows <= 0.75 * size
    twice = few and sum(many == len(records) for _, many in parts) + apart > 1
    return Split(each=tuple(each), size=size, read=rows, by=str(parts[0][0]), twice=twice)


@once
def by_data(recording: Recording) -> bool:
    """Whether each rank is a copy of the same model, so that it is to have data of its own."""
    ranks = recording.ranks
    sizes = {str(item.get("world_size") or len(ranks)) for rank in ranks for item in rank.of("ddp")}
    models = all(any(item.get("wrapped") == "DDP" for item in rank.of("model")) for rank in ranks)
    made = all(any(item.get("ddp") for item in rank.of("ranks")) for rank in ranks)
    return sizes <= {str(len(ranks))} and (models or made)


@once
def uneven(recording: Recording) -> bool:
    """Whether the ranks have different numbers of batches, in a run that did not come to its end."""
    data = split(recording)
    return data is not None and len({*data.each} - {None}) > 1 and not ended(recording) and by_data(recording)


@frozen
class Apart:
    """What the sums of the same parameter and its gradient say."""

    record: Record
    looks: int
    gradients: int
    """Looks in which the gradients differ between ranks."""
    alone: bool
    """Whether nothing is shared, where it should be."""


@once
def apart(recording: Recording) -> Apart | None:
    """Whether gradients and weights of the ranks are the same; None where that was not seen."""
    told = [[item for item in process.of("ranks") if item.get("sums")] for process in recording.ranks]
    looks = [{int(item.get("step") or 0): item for item in items} for items in told]
    common = sorted(set.intersection(*map(set, looks))) if len(looks) > 1 else []
    rows = [[one[step] for one in looks] for step in common]
    known = {(item.get("of"), item.get("name"), item.get("size")) for row in rows for item in row}
    if len(known) != 1 or rows[0][0].get("of") != len(looks):
        return None
    last, gradients = rows[-1][0], sum(_distance(row, 2) > _SHARED for row in rows)
    begun = last.get("grouped") and _distance(rows[0], 0) <= _BEGUN / math.sqrt(last.get("size") or 1)
    every = len(rows) >= _LEAST and gradients == sum(_distance(row, 0) > _EQUAL for row in rows) == len(rows)
    alone = bool(every and (last.get("ddp") or begun))
    return Apart(record=last, looks=len(rows), gradients=gradients, alone=alone)


def _distance(row: list[Record], column: int) -> float:
    """How far the sums lie apart, in parts of the sum of all amounts."""
    sums = [item.get("sums")[column : column + 2] for item in row]
    if any(value is None or not math.isfinite(value) for values in sums for value in values):
        return 0.0
    amount = max(values[1] for values in sums)  # the gradients of a classifier's last layer add up to 0
    return max(max(values) - min(values) for values in zip(*sums, strict=True)) / amount if amount else 0.0


def ranks(recording: Recording) -> CardLine | None:
    """What each rank read, and whether the ranks stay one model."""
    if len(recording.ranks) < 2:
        return None
    data, weights, rows = split(recording), apart(recording), read(recording)
    parts: list[str] = []
    facts: dict[str, Any] = {"ranks": len(recording.ranks)}
    if rows is not None:
        facts |= {"same_batches": rows.same, "looked_at": rows.rows, "common": rows.common}
        common = say("{ranks} ranks, {common} of {looked_at} samples read by several", **facts)
        own = common if rows.common else say("{ranks} ranks, samples of their own", **facts)
        parts.append(say("all {ranks} read the same batches", **facts) if rows.same else own)
    if data is not None and None not in data.each:
        each = concatenated("/", map(str, sorted({each or 0 for each in data.each})))
        parts.append(say("{each} batches an epoch", each=each))
        if data.read is not None and data.size and data.by and not (rows and rows.same):
            parts.append(say("{read:,} of {size:,} rows", read=min(data.read, data.size), size=data.size))
        facts.update(each=list(data.each), read=data.read, size=data.size)
    if weights is not None:
        facts.update(looks=weights.looks, gradients_apart=weights.gradients)
        differ = say("gradients apart in {gradients_apart} of {looks} looks", **facts)
        parts.append(differ if weights.gradients else say("gradients shared"))
    return CardLine(name="ranks", text=concatenated("; ", parts), facts=facts) if parts else None
