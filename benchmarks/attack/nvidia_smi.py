"""Logs of nvidia-smi: odd cells, odd headers, damage, too much of everything."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

from attack.case import Attempt
from attack.hostile.commands import run, warm, why_broken

GROUP = "nvidia-smi logs"
HEADER = [
    "timestamp", "index", "name", "utilization.gpu [%]", "memory.used [MiB]", "memory.total [MiB]", "power.draw [W]", "power.limit [W]",
    "temperature.gpu", "clocks.sm [MHz]", "clocks_event_reasons.active", "pcie.link.width.current", "pcie.link.width.max",
]  # fmt: skip
ODD = [
    "", "[N/A]", "[Not Supported]", "NaN", "inf", "-inf", "1e999", "-5 %", "9" * 400, "9" * 5000, "0x" + "f" * 5000, "\x00", "\ud7ff", "²", "٣٤",
    '"', '""', "a,b", '"a', "\r", "\t\t", "1.2.3", "0x", "--", "=1+1", "<b>", "\U0001d7d9\U0001d7da", "x" * 100_000, "-" * 1000, "1" * 14 + "." + "1" * 14,
]  # fmt: skip


def rows(count: int = 40, gpus: int = 2) -> list[list[str]]:
    """Lines of a log, the header first."""
    found = [list(HEADER)]
    for second in range(count):
        for gpu in range(gpus):
            found.append([
                f"2026/11/22 12:{second // 60:02}:{second % 60:02}.000", str(gpu), "NVIDIA H100 80GB HBM3", f"{30 + gpu} %", "70000 MiB",
                "81559 MiB", "300.5 W", "700.00 W", "60", "1500 MHz", "0x0000000000000004", "16", "16",
            ])  # fmt: skip
    return found


def attempts(seed: int, scratch: Path) -> Iterator[Attempt]:
    """Each log through report."""
    warm()
    dice = random.Random(seed)
    for number, (name, data) in enumerate(_logs(dice)):
        folder = scratch / f"s{number}"
        folder.mkdir()
        (folder / "smi.csv").write_bytes(data)
        words = dice.choice(
            [
                ["report", "smi.csv", "--format", "json"],
                ["report", "smi.csv"],
                ["report", "smi.csv", "--format", "html"],
            ]
        )
        yield Attempt(group=GROUP, name=name, broken=why_broken(run(words, folder)))
        shutil.rmtree(folder)


def _text(table: list[list[str]]) -> bytes:
    return "".join(", ".join(line) + "\n" for line in table).encode("utf-8", "surrogatepass")


def _logs(dice: random.Random) -> Iterator[tuple[str, bytes]]:
    yield "whole", _text(rows())
    for column, title in enumerate(HEADER):
        for value in dice.sample(ODD, 5):
            table = rows()
            for line in dice.sample(range(1, len(table)), dice.choice([1, 5, len(table) - 1])):
                table[line][column] = value
            yield f"{title} = {value!r:.30}", _text(table)
        yield (f"without {title}", _text([[cell for at, cell in enumerate(line) if at != column] for line in rows()]))
    for times in (
        ["2026/11/22 12:00:00.000"] * 80, ["0001/01/01 00:00:00.000"] * 80, ["9999/12/31 23:59:59.999"] * 80, ["1969/12/31 23:00:00.000"] * 80,
        [f"2026/11/22 12:00:{59 - i // 2:02}.000" for i in range(80)],
        [f"{dice.randrange(1, 9999):04}/11/22 12:00:00.000" for _ in range(80)],
    ):  # fmt: skip
        table = rows()
        for line, time in zip(table[1:], times, strict=True):
            line[0] = time
        yield f"times {times[0]}, {times[-1]}", _text(table)
    whole = _text(rows())
    for number in range(8):
        damaged = bytearray(whole)
        for _ in range(dice.choice([1, 20, 200])):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        yield f"damaged {number}", bytes(damaged)
    for number in range(4):
        yield f"cut {number}", whole[: dice.randrange(len(whole))]
    yield "twice", whole + whole
    yield "header only", _text(rows()[:1])
    yield "a byte order mark", b"\xef\xbb\xbf" + whole
    yield "UTF-16", _text(rows()).decode().encode("utf-16")
    yield "carriage returns", whole.replace(b"\n", b"\r\n")
    yield "only carriage returns", whole.replace(b"\n", b"\r")
    yield "an open quote", whole + b'"' + whole * 20
    yield "a line of 100 MB", whole + b"x" * (100 << 20)
    yield "5,000 columns", _text([line + [f"c{i}" for i in range(5000)] for line in rows(4)])
    yield ("20,000 GPUs", _text([HEADER, *([*rows(1, 1)[1][:1], str(i), *rows(1, 1)[1][2:]] for i in range(20_000))]))
    yield "200,000 rows", _text(rows()[:1]) + _text(rows(60, 8)[1:]) * 420
    yield "NULs", whole.replace(b" ", b"\0")
