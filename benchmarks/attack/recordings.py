"""Recordings whose sums are right and whose values are odd, through report, compare and every format."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from attack.case import Attempt
from attack.hostile.commands import run, warm, why_broken
from attack.hostile.written import NAN, Raw, Written

GROUP = "recordings with odd values"
ATTEMPTS = 260

ODD: list[Any] = [
    None, True, False, 0, -1, 1, -(2**31), 2**31, 2**32, 2**53 + 1, 2**63, -(2**63), 2**64, 10**30, 10**308, 0.0,
    -0.0, -1.5, 1e-320, 1e300, -1e300, Raw("NaN"), Raw("Infinity"), Raw("-Infinity"), Raw("1e999"), "", "x", "NaN",
    "-1", "9" * 5000, "a\x00b", "\ud800", "\udfff\ud800", "line\nline", "\x1b[31m", "/" * 4000, "../../etc/passwd",
    [], [[]], [None], [1, 2, 3], ["a"], [[1, 2], [3]], [["other", "p", 1, "f", -5.0]], [["other", "p", "x", [], {}]],
    [["other"]], [[0]], [[[], {}, None, None, None]], {}, {"a": 1}, {"": None}, {"float32": -1}, {"allocated": "x"},
    {"allocated": Raw("NaN"), "total": -1}, [{}], [{"name": 1}], Raw("[" * 200 + "]" * 200),
]  # fmt: skip
"""Values that stand where others belong."""
NUMBERS = [
    NAN, -NAN, float("inf"), float("-inf"), -1.0, -0.0, 0.0, 1e-45, 3e38, -3e38, 1e300, -1e300, 2**31, 2**63, 0.5,
]  # fmt: skip
"""Values of columns."""


def attempts(seed: int, scratch: Path) -> Iterator[Attempt]:
    """Odd values in records, columns, headers, names and manifests."""
    warm()
    base = Written()
    dice = random.Random(seed)
    tricks = [*_fields(base, dice), *_columns(base, dice), *_shapes()]
    dice.shuffle(tricks)
    for number, (name, trick) in enumerate(tricks[:ATTEMPTS]):
        yield tried(scratch / f"r{number}", name, trick, base, dice)


Trick = Callable[[Written], None]


def tried(folder: Path, name: str, trick: Trick, base: Written, dice: random.Random) -> Attempt:
    """One recording, through a command that the dice choose."""
    one = base.copy()
    trick(one)
    one.write(folder / "odd")
    words = dice.choice(
        [
            ["report", "odd", "--format", "json"],
            ["report", "odd", "--format", "json"],
            ["report", "odd", "--verbose"],
            ["report", "odd", "--format", "html"],
            ["report", "odd", "--format", "json", "--share"],
            ["report", "odd", "--tensorboard", "events"],
            ["compare", "odd", "odd"],
            ["compare", "whole", "odd", "--format", "json", "--max-regression", "5%"],
        ]
    )
    if "whole" in words:
        base.write(folder / "whole")
    outcome = run(words, folder)
    shutil.rmtree(folder, ignore_errors=True)
    return Attempt(group=GROUP, name=name, broken=why_broken(outcome))


def _fields(base: Written, dice: random.Random) -> list[tuple[str, Trick]]:
    """An odd value in a field of a record, and a field that is missing."""
    found: list[tuple[str, Trick]] = []
    for part in ("records", "worker", "facts", "manifest", "ending"):
        items = getattr(base, part)
        for number, item in enumerate(items if isinstance(items, list) else [items]):
            for field in [*item, "parameters", "step"]:
                for value in dice.sample(ODD, 3):
                    found.append((f"{part} {item.get('type', '')} {field} = {value!r:.40}",
                                  _set(part, number, field, value)))  # fmt: skip
            field = dice.choice(list(item))
            found.append((f"{part} {item.get('type', '')} without {field}", _set(part, number, field, _set)))
            others = dice.sample(list(item), min(3, len(item)))
            found.append((f"{part} {item.get('type', '')} without {others}", _without(part, number, others)))
    gpu = dict(base.facts["gpus"][0])
    for field in gpu:
        value = dice.choice(ODD)
        found.append((f"facts gpus {field} = {value!r:.40}", _gpu(field, value)))
    return found


def _item(one: Written, part: str, number: int) -> Any:
    items = getattr(one, part)
    return items[number] if isinstance(items, list) else items


def _set(part: str, number: int, field: str, value: Any) -> Trick:
    def trick(one: Written) -> None:
        if value is _set:
            _item(one, part, number).pop(field)
        else:
            _item(one, part, number)[field] = value

    return trick


def _without(part: str, number: int, fields: list[str]) -> Trick:
    def trick(one: Written) -> None:
        for field in fields:
            _item(one, part, number).pop(field, None)

    return trick


def _gpu(field: str, value: Any) -> Trick:
    def trick(one: Written) -> None:
        one.facts["gpus"][0][field] = value

    return trick


def _columns(base: Written, dice: random.Random) -> list[tuple[str, Trick]]:
    """Odd numbers in columns: in one row, in all, in a few."""
    found: list[tuple[str, Trick]] = []
    for table in ("steps", "machine"):
        for column, (code, values) in getattr(base, table).items():
            for value in dice.sample(NUMBERS, 3):
                rows = dice.choice([[0], [len(values) - 1], list(range(len(values))), list(range(5, 9))])
                found.append((f"{table} {column} rows {rows[0]}-{rows[-1]} = {value!r}",
                              _rows(table, column, rows, _of_code(code, value))))  # fmt: skip
            found.append((f"{table} without {column}", _drop(table, column)))
            found.append((f"{table} {column} as B", _recode(table, column)))
    for shuffled in ("index", "t", "duration"):
        found.append((f"steps {shuffled} backwards", _backwards(shuffled)))
    return found


def _of_code(code: str, value: float) -> float:
    if code in "fd":
        return 3e38 if code == "f" and abs(value) > 3e38 and value not in (float("inf"), float("-inf")) else value
    return int(abs(value)) % 2**32 if value == value and abs(value) < 1e100 else 2**32 - 1


def _rows(table: str, column: str, rows: list[int], value: float) -> Trick:
    def trick(one: Written) -> None:
        values = getattr(one, table)[column][1]
        for row in rows:
            values[row] = value

    return trick


def _drop(table: str, column: str) -> Trick:
    return lambda one: getattr(one, table).pop(column)


def _recode(table: str, column: str) -> Trick:
    def trick(one: Written) -> None:
        values = getattr(one, table)[column][1]
        getattr(one, table)[column] = ["B", [int(abs(value)) % 256 if value == value else 0 for value in values]]

    return trick


def _backwards(column: str) -> Trick:
    return lambda one: one.steps[column][1].reverse()


def _shapes() -> list[tuple[str, Trick]]:
    """Headers that lie, records that are no objects, names of files, counts beyond all limits."""
    from attack.hostile.written import block, frame, json_frame, steps

    found: list[tuple[str, Trick]] = []
    for value in (2**40, -1, 0, 2**63, "x", None, [], Raw("1e3"), Raw("NaN"), True):
        found.append((f"header n = {value!r}", lambda one, v=value: one.header.update(n=v)))
    for value in ("x", None, [], [["t"]], [["t", "Z"]], [[1, 2]], [["t", "d"]] * 2000, {}, [["t", "q"]], [[[], "d"]]):
        found.append((f"header columns = {value!r:.40}", lambda one, v=value: one.header.update(columns=v)))
    for value in (None, 5, [], "", "machine", "x" * 10000, "\ud800"):
        found.append((f"header table = {value!r:.40}", lambda one, v=value: one.header.update(table=v)))
    for payload in (b"", b"[]", b"null", b"{}", b"1", b'"x"', b"\xff\xfe", b"{" * 100000, b"[" * 100000, b"NaN",
                    b'{"type":"start"}', b'{"t":1}', b'{"type":[],"t":{}}', b'{"type":"site","t":1e999}',
                    b'{"type":"site","t":NaN}', b'{"type":"lines","t":"1"}', b'{"type":"x","t":-1e308}',
                    b'{"type":"site","t":' + b"9" * 5000 + b"}", b'\xef\xbb\xbf{"type":"end","t":1}'):  # fmt: skip
        for kind in (b"J", b"C"):
            found.append((f"frame {kind!r} {payload[:30]!r}",
                          lambda one, k=kind, p=payload: setattr(one, "tail", frame(k, p))))  # fmt: skip
    found += [
        ("frame of an unknown kind", lambda one: setattr(one, "tail", frame(b"Z", b"abc"))),
        ("a second block goes back", lambda one: setattr(one, "tail", block("steps", steps(50)))),
        ("a block without rows", lambda one: setattr(one, "tail", block("steps", {"t": ["d", []]}))),
        ("a block of other columns", lambda one: setattr(one, "tail", block("steps", {"new": ["d", [1.0]]}))),
        ("a block of index as d", lambda one: setattr(one, "tail", block("steps", {"index": ["d", [NAN, -1.0]]}))),
        ("two starts of other ranks", lambda one: one.records.insert(1, {**one.records[0], "rank": 7})),
        ("rank 10^9 of 10^9", lambda one: one.records[0].update(rank=10**9, world=10**9)),
        ("rank -1", lambda one: one.records[0].update(rank=-1)),
        ("world 10^9", lambda one: one.records[0].update(world=10**9)),
        ("pid 0", lambda one: one.records[0].update(pid=0)),
        ("pid -1", lambda one: one.records[0].update(pid=-1)),
        ("a rank twice", lambda one: one.more.update({"rank-0-9999.gdr": one.files()["rank-0-4712.gdr"]})),
        ("a name of 10^30", lambda one: one.names.update(rank=f"rank-{10**30}-{10**30}.gdr")),
        ("a gpu of 10^9", lambda one: one.machine.update({"gpu999999999_util": ["d", [1.0] * 30]})),
        ("a gpu of 10^30", lambda one: one.machine.update({f"gpu{10**30}_util": ["d", [1.0] * 30]})),
        ("a gpu of 5000 digits", lambda one: one.machine.update({f"gpu{'9' * 5000}_util": ["d", [1.0] * 30]})),
        ("5000 columns", lambda one: one.steps.update({f"c{i}": ["B", [1] * 120] for i in range(5000)})),
        ("200 gpus", lambda one: one.machine.update({f"gpu{i}_util": ["d", [1.0] * 30] for i in range(200)})),
        ("facts of 10^5 gpus", lambda one: one.facts.update(gpus=[{}] * 100_000)),
        ("20,000 sites", lambda one: setattr(one, "tail", b"".join(
            json_frame({"type": "site", "t": 1.0, "phase": "sync", "what": f"w{i}", "path": f"/p{i}", "line": i,
                        "calls": 1, "seconds": 0.1}) for i in range(20_000)))),
        ("20,000 hooks lost", lambda one: setattr(one, "tail", b"".join(
            json_frame({"type": "lost", "t": 1.0, "hook": f"h{i}", "error": "e" * 100}) for i in range(20_000)))),
        ("a message of 5 MB", lambda one: one.records[-5].update(message="x" * 5_000_000)),
        ("frames of 10^5", lambda one: one.records[-5].update(frames=[["/p", 1, "f", "t"]] * 100_000)),
        ("counts of 10^5", lambda one: one.records[9].update(counts=[["other", f"/p{i}", i, "f", 1.0]
                                                                     for i in range(100_000)])),
        ("count 2^32-1 in each row", lambda one: one.steps.update(count=["I", [2**32 - 1] * 120])),
        ("index 2^32-1 first", lambda one: one.steps["index"][1].__setitem__(0, 2**32 - 1)),
        ("started of the year 1", lambda one: one.manifest.update(started="0001-01-01T00:00:00")),
        ("started of the year 9999", lambda one: one.manifest.update(started="9999-12-31T23:59:59+00:00")),
        ("schema of 5000 digits", lambda one: one.manifest.update(schema="gpudoctor.recording/" + "9" * 5000)),
        ("schema of the future", lambda one: one.manifest.update(schema="gpudoctor.recording/99")),
        ("format of the future", lambda one: one.records[0].update(format=99)),
        ("no manifest", lambda one: setattr(one, "manifest", None)),
        ("no end", lambda one: setattr(one, "ending", None)),
        ("command of lists", lambda one: one.manifest.update(command=[["python"], {}, None, "train.py"])),
        ("command of 10^5 words", lambda one: one.manifest.update(command=["python", *["x"] * 100_000])),
        ("script is /dev/zero", lambda one: one.manifest.update(command=["python", "/dev/zero"])),
        ("script has a NUL", lambda one: one.manifest.update(command=["python", "a\x00b.py"])),
        ("script has a long name", lambda one: one.manifest.update(command=["python", "a" * 5000 + ".py"])),
        ("cwd has a NUL", lambda one: one.manifest.update(cwd="/job\x00/x")),
        ("a fault without end", lambda one: one.more.update({"fault-0-4712.txt": b"Fatal Python error: x\n" * 20000})),
        ("a fault of 10^5 frames", lambda one: one.more.update({
            "fault-0-4712.txt": b"Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n"
            + b'  File "/job/t.py", line 99999999999999999999 in f\n' * 20_000})),
        ("a fault of a huge line", lambda one: one.more.update({
            "fault-0-4712.txt": b"Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n"
            + b'  File "/job/t.py", line ' + b"9" * 5000 + b" in f\n"})),
        ("machine.gdr is foreign", lambda one: one.names.update(machine="other.gdr")),
        ("a rank's file is empty", lambda one: one.more.update({"rank-1-5.gdr": b""})),
        ("a rank's file is foreign", lambda one: one.more.update({"rank-1-5.gdr": b"PK\x03\x04" * 100})),
        ("3000 ranks", lambda one: one.more.update({f"rank-{i}-{i}.gdr": b"GPUDOC1\n" for i in range(1, 3000)})),
    ]  # fmt: skip
    return found
