"""What the ranks have in common and what not: samples, batches of an epoch, gradients, weights."""

import math
from collections.abc import Iterator

from gpudoctor.analysis.memo import once
from gpudoctor.analysis.run.training.schedule import ended
from gpudoctor.lang import say
from gpudoctor.lang.message import concatenated
from gpudoctor.model.records import frozen
from gpudoctor.model.run import CardLine
from gpudoctor.model.signs.recording import Process, Record, Recording

_LEAST = 3
"""Batches and steps that are compared before they count as the same, or as apart."""
_SHARED, _EQUAL = 1e-3, 1e-6
"""By how much of the sum of all amounts gradients and weights may differ that are the same."""
_BEGUN = 0.5
"""Weights that begin alike differ by less after a step: this over the root of their number."""


@once
def same_rows(recording: Recording) -> int:
    """Batches whose samples are the same on each rank, where all compared ones are; 0 where some differ."""
    drawn = [_rows(process) for process in recording.ranks]
    common = set.intersection(*map(set, drawn)) if len(drawn) > 1 else set()
    equal = all(rows[draw] == drawn[0][draw] for rows in drawn for draw in common)
    kinds = {number for draw in common for number in drawn[0][draw]}
    return len(common) if equal and len(common) >= _LEAST and len(kinds) > len(common) else 0


def _rows(process: Process) -> dict[int, tuple[int, ...]]:
    """The samples of the training loader's batches, by draw."""
    loader = next((item.get("id") for item in process.of("loader") if item.get("role") == "training"), None)
    records = [item for item in process.of("batch") if item.get("loader") == loader and item.get("hashes")]
    return {int(item.get("draw") or 0): tuple(item.get("hashes")) for item in records}


@frozen
class Split:
    """How the data of the training loader is split."""

    each: tuple[int | None, ...]
    """Batches of an epoch, by rank."""
    size: int | None
    """Rows of the data set; None where it does not tell."""
    read: int | None
    """Rows that all ranks together read in an epoch, at most."""
    parts: tuple[tuple[str, int], ...]
    """What leaves a rank its part, by class and number of parts."""
    apart: bool
    """Whether the first rows of the ranks' data sets differ."""
    joins: bool

    @property
    def twice(self) -> bool:
        """Whether the data is split by rank more than once: no rank reads the rest."""
        by_rank = [parts for _, parts in self.parts if parts == len(self.each)]
        few = self.read is not None and self.size is not None and self.read <= 0.75 * self.size
        return (len(by_rank) > 1 and few) or (bool(by_rank) and self.apart)


@once
def split(recording: Recording) -> Split | None:
    """How the training data is split over the ranks; None for one rank."""
    records = [record for process in recording.ranks if (record := process.last("split")) is not None]
    if len(records) < 2 or len(records) != len(recording.ranks):
        return None
    firsts, each = {record.get("first") for record in records}, [record.get("each") for record in records]
    batch = records[0].get("batch")
    return Split(
        each=tuple(each),
        size=records[0].get("size"),
        read=sum(each) * int(batch) if batch and None not in each else None,
        parts=tuple((name, parts) for name, parts in records[0].get("splits") or ()),
        apart=len(firsts) > 1 and None not in firsts,
        joins=any(record.get("joins") for record in records),
    )


@once
def by_data(recording: Recording) -> bool:
    """Whether each rank is a copy of the same model, so that it is to have data of its own."""
    sizes = {str(item.get("world_size") or len(recording.ranks)) for rank in recording.ranks for item in rank.of("ddp")}
    return sizes <= {str(len(recording.ranks))} and all(
        any(item.get("wrapped") == "DDP" for item in rank.of("model"))
        or any(item.get("ddp") for item in rank.of("ranks"))
        for rank in recording.ranks
    )


@once
def uneven(recording: Recording) -> bool:
    """Whether the ranks have different numbers of batches, and nothing joins them: the run did not reach its end."""
    data = split(recording)
    each = set() if data is None or data.joins or ended(recording) else set(data.each) - {None}
    return len(each) > 1 and by_data(recording)


@frozen
class Apart:
    """What the sums of the same parameters say."""

    record: Record
    looks: int
    gradients: int
    weights: int
    """Looks in which the gradients, and the weights, differ between ranks."""
    name: str
    """The parameter whose gradient differs most at the last look."""
    values: tuple[float, ...]
    """Sums of the amounts of its gradient, by rank."""
    kind: str
    """`wrapped` (DDP is there and shares nothing), `alone` (nothing shares), `begun` (weights differ, gradients do
    not); "" where all is well, or nobody knows.
    """


@once
def apart(recording: Recording) -> Apart | None:
    """Whether gradients and weights of the ranks are the same; None where that was not seen."""
    looks = [{int(item.get("step") or 0): item for item in process.of("ranks")} for process in recording.ranks]
    common = sorted(set.intersection(*map(set, looks))) if len(looks) > 1 else []
    rows = [[one[step] for one in looks] for step in common]
    if not rows or len({tuple(item.get("names") or ()) for row in rows for item in row}) != 1:
        return None
    last, names, sizes = rows[-1], rows[0][0].get("names"), rows[0][0].get("sizes")
    if last[0].get("of") != len(recording.ranks):
        return None
    places = range(len(names))
    differ = [
        sum(2 * sum(_distance(row, place, column) > limit for place in places) > len(places) for row in rows)
        for column, limit in ((2, _SHARED), (0, _EQUAL))
    ]
    place, kind = max(places, key=lambda at: _distance(last, at, 2)), ""
    if len(rows) >= _LEAST and differ[1] == len(rows):
        alike = all(_distance(rows[0], at, 0) <= _BEGUN / math.sqrt(sizes[at]) for at in places)
        quiet = not any(value > 0 for process in recording.ranks for value in process.steps.column("collectives"))
        if differ[0] == len(rows):
            kind = "wrapped" if last[0].get("ddp") else "alone" if last[0].get("grouped") and (alike or quiet) else ""
        elif not differ[0]:
            kind = "begun"
    values = tuple(float(item.get("sums")[place][3] or 0.0) for item in last)
    return Apart(
        record=last[0],
        looks=len(rows),
        gradients=differ[0],
        weights=differ[1],
        name=str(names[place]),
        values=values,
        kind=kind,
    )


def _distance(row: list[Record], place: int, column: int) -> float:
    """How far the sums of a parameter lie apart, in parts of the sum of all amounts."""
    sums = [item.get("sums")[place][column : column + 2] for item in row]
    if any(value is None or not math.isfinite(value) for values in sums for value in values):
        return 0.0
    amount = max(values[1] for values in sums)  # the gradients of a classifier's last layer add up to 0
    return max(max(values) - min(values) for values in zip(*sums, strict=True)) / amount if amount else 0.0


def ranks(recording: Recording) -> CardLine | None:
    """What each rank read, and whether the ranks stay one model."""
    parts = list(_said(recording, len(recording.ranks))) if len(recording.ranks) > 1 else []
    if not parts:
        return None
    data, weights = split(recording), apart(recording)
    facts = {
        "ranks": len(recording.ranks),
        "same_batches": same_rows(recording),
        "each": list(data.each) if data else None,
        "read": data.read if data else None,
        "size": data.size if data else None,
        "looks": weights.looks if weights else 0,
        "gradients_apart": weights.gradients if weights else None,
        "weights_apart": weights.weights if weights else None,
    }
    return CardLine(name="ranks", text=concatenated("; ", parts), facts=facts)


def _said(recording: Recording, count: int) -> Iterator[str]:
    data, weights, same = split(recording), apart(recording), same_rows(recording)
    if set.intersection(*(set(_rows(process)) for process in recording.ranks)):
        yield (
            say("all {ranks} read the same batches", ranks=count)
            if same
            else say("{ranks} ranks, samples of their own", ranks=count)
        )
    if data is not None and None not in data.each:
        each = sorted({int(each) for each in data.each if each is not None})
        yield say("{each} batches an epoch", each=concatenated("/", map(str, each)))
        if data.read is not None and data.size and data.parts and not same:
            yield say("{read:,} of {size:,} rows", read=min(data.read, data.size), size=data.size)
    if weights is not None:
        yield (
            say("gradients shared")
            if not weights.gradients
            else say("gradients apart in {apart} of {looks} looks", apart=weights.gradients, looks=weights.looks)
        )
        if weights.weights and not weights.gradients:
            yield say("weights apart")
