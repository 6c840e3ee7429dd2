"""Tapes of `watch --replay`: odd values in every field, damage, bombs."""

from __future__ import annotations

import copy
import gzip
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attack.case import Attempt
from attack.hostile.commands import run, warm, why_broken
from attack.hostile.written import Raw, dumped

GROUP = "watch tapes"
ODD: list[Any] = [
    None, True, -1, 0, 2**63, 10**30, 10**400, 1.5, -1e300, Raw("NaN"), Raw("Infinity"), "", "x", "9" * 5000, "\ud800", "\x1b[2J", [], {}, [[]], [1, 2], {"$": "float", "v": "nan"},
    {"$": "float", "v": "x"}, {"$": "set", "v": [[1]]}, {"$": "map", "v": [[[], 1]]}, {"$": "map", "v": [[1]]}, {"$": "report.Report"}, {"$": "os.system", "v": "x"},
    {"$": "severity.Severity", "v": "NONE"}, {"$": "signs.process.Series", "t": [1.0], "values": []}, {"$": "signs.process.Series", "t": ["a"], "values": ["b"]},
    {"$": "signs.process.Rank", "pid": -1}, {"$": None}, {"$": []}, Raw("[" * 90 + "]" * 90),
]  # fmt: skip


def tape(ticks: int = 3) -> list[dict[str, Any]]:
    """A tape, line by line, as this version writes it."""
    import tempfile

    from gpudoctor.engine.examination import Request, examine
    from gpudoctor.engine.registry import load_registry
    from gpudoctor.engine.selection import make_selection
    from gpudoctor.model import Patient, PatientKind, Sign, Signs
    from gpudoctor.model.signs.process import (
        Frame,
        GpuWindow,
        HostWindow,
        LiveSteps,
        Place,
        ProcessWindow,
        Rank,
        Series,
        Worker,
    )
    from gpudoctor.model.watch import Tick
    from gpudoctor.watch.tape import TapeWriter

    registry = load_registry()
    request = Request(registry=registry, selection=make_selection(registry, [("DATA", "")], []))
    with tempfile.TemporaryDirectory() as folder:
        writer = TapeWriter(Path(folder) / "tape")
        for number in range(1, ticks + 1):
            t = 10.0 * number
            place = Place(
                phase="data_wait",
                kind="loader-wait",
                via="DataLoader.__next__",
                path="/job/train.py",
                line=7,
                function="train",
                text="for x in loader:",
                count=90,
            )
            rank = Rank(
                rank=0, pid=4712, command=("python", "train.py"), user="u", cwd="/job", started=1.79e9, cpu=1.0, threads=9, rss=10**9,
                tree_rss=Series(t=(t,), values=(1e9 + t,)), device_memory=Series(t=(t,), values=(1e10,)), gpus=(0,), read_rate=1e6, write_rate=0.0,
                samples=100, seconds=60.0, places=(place,), stack=(Frame(name="train", path="/job/train.py", line=7),), still=1.0,
                trail=((t, "data_wait"),), workers=(Worker(pid=4720, state="R", cpu=0.9, rss=10**8),),
                steps=LiveSteps(step=number, seconds=0.1, phases={"data_wait": 0.6, "other": 0.4}), step_seconds=Series(t=(t,), values=(0.1,)),
            )  # fmt: skip
            window = ProcessWindow(
                t=t, length=120.0, wall=1.79e9 + t, ranks=(rank,), gpus=_gpus(GpuWindow, Series, t), host=HostWindow()
            )
            patient = Patient(PatientKind.PROCESS, "train.py", Signs(process=Sign.of("the process", window)))
            writer.write(Tick(window=window, report=examine(patient, request), number=number))
        writer.close()
        return [json.loads(line) for line in (Path(folder) / "tape").read_text().splitlines()]


def _gpus(kind: Any, series: Any, t: float) -> tuple[Any, ...]:
    """One GPU."""
    of = {
        name: series(t=(t,), values=(value,))
        for name, value in (("busy", 0.4), ("sm", 0.2), ("memory", 7e10), ("power", 300.0))
    }
    return (kind(index=0, name="NVIDIA H100", memory_total=85 << 30, reasons={4: 0.5}, **of),)


def attempts(seed: int, scratch: Path) -> Iterator[Attempt]:
    """Each tape through the stream, the report and JSON."""
    warm()
    dice = random.Random(seed)
    whole = tape()
    for number, (name, data, packed) in enumerate(_tapes(whole, dice)):
        folder = scratch / f"t{number}"
        folder.mkdir()
        file = "tape.jsonl.gz" if packed else "tape.jsonl"
        (folder / file).write_bytes(data)
        more = dice.choice(
            [
                ["--plain"],
                ["--json"],
                ["--once"],
                ["--once", "--format", "json"],
                ["--once", "--format", "html"],
                ["--once", "--verbose"],
                ["--json", "--share"],
            ]
        )
        yield Attempt(group=GROUP, name=name, broken=why_broken(run(["watch", "--replay", file, *more], folder)))
        shutil.rmtree(folder)


def _paths(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield here
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _paths(item, (*here, key))
    elif isinstance(value, list):
        for place, item in enumerate(value[:3]):
            yield from _paths(item, (*here, place))


def _with(line: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    changed = copy.copy(line)
    if value is _with and len(path) == 1:
        changed.pop(path[0])
    else:
        changed[path[0]] = _with(line[path[0]], path[1:], value)
    return changed


def _tapes(whole: list[dict[str, Any]], dice: random.Random) -> Iterator[tuple[str, bytes, bool]]:
    yield "whole", _bytes(whole), False
    yield "whole, packed", gzip.compress(_bytes(whole)), True
    for at in (1, 2):
        paths = [path for path in _paths(whole[at]) if path]
        for path in dice.sample(paths, min(60, len(paths))):
            value = dice.choice([*ODD, _with])
            if value is _with and not isinstance(path[-1], str):
                value = None
            lines = [*whole[:at], _with(whole[at], path, value), *whole[at + 1 :]]
            yield (
                f"line {at}: {'.'.join(map(str, path))[-40:]} = {'gone' if value is _with else repr(value)[:30]}",
                _bytes(lines),
                False,
            )
    for name, line in (("empty", b"{}"), ("a list", b"[]"), ("no JSON", b"x"), ("deep", b"[" * 100_000), ("a text of 40 MB", b'"' + b"x" * 40_000_000 + b'"'),
                       ("keys only", b'{"number":1,"window":{},"ranks":{},"gpus":{},"host":{},"report":{}}')):  # fmt: skip
        yield f"a line that is {name}", _bytes(whole[:2]) + line + b"\n" + _bytes(whole[2:]), False
        yield f"a first line that is {name}", line + b"\n" + _bytes(whole), False
    ranks = whole[1]["ranks"]
    many = {**whole[1], "ranks": {str(i): next(iter(ranks.values())) for i in range(400)}}
    yield "400 ranks", _bytes([whole[0], many]), False
    yield "600 ticks", _bytes([whole[0], *whole[1:] * 200]), False
    packed = gzip.compress(_bytes(whole))
    for number in range(6):
        damaged = bytearray(packed)
        damaged[dice.randrange(12, len(damaged))] ^= 1 << dice.randrange(8)
        yield f"damaged gz {number}", bytes(damaged), True
        yield f"cut gz {number}", packed[: dice.randrange(len(packed))], True
    yield "gz bomb of one line", gzip.compress(_bytes(whole) + b" " * (900 << 20), 1), True
    yield "gz bomb of empty lines", gzip.compress(_bytes(whole) + b"\n" * (200 << 20), 1), True
    yield "gz bomb of empty objects", gzip.compress(_bytes(whole[:1]) + b"[]\n" * 3_000_000, 1), True
    yield "UTF-16", _bytes(whole).decode().encode("utf-16"), False
    yield "not packed, called gz", _bytes(whole), True
    yield "empty", b"", False
    yield "a zip file", b"PK\x03\x04" * 100, False


def _bytes(lines: list[Any]) -> bytes:
    return "".join(dumped(line) + "\n" for line in lines).encode("utf-8", "surrogatepass")
