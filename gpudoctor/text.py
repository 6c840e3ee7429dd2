"""Numbers and lists in sentences: the one place where bytes, seconds, shares and counts become words.

Standard library only: every layer but the probe may use it. Elsewhere all is bytes, seconds and shares (0..1).
What has words in it is a message (`gpudoctor.lang`), so that it can be said in another language.
"""

import math
from collections.abc import Iterable, Sequence
from functools import reduce

from gpudoctor.lang import Message, say
from gpudoctor.lang.message import CAPITALISED, capital, row

_BYTE_STEPS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_RATE_STEPS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_RATES = frozenset({"B/s", "FLOP/s", "Hz"})
_SPOKEN_UNITS = {"Cel": "°C", "count": ""}


def size(amount: float) -> str:
    """Bytes in the binary unit that leaves one to four digits: `64 MiB`, `1.46 GiB`, `0 B`."""
    if not math.isfinite(amount):
        return say("unknown")
    for step, unit in _BYTE_STEPS:
        if abs(amount) >= step:
            return f"{short(amount / step)} {unit}"
    return f"{amount:,.0f} B"


def rate(amount: float, unit: str) -> str:
    """A rate in decimal steps, as data sheets and nccl-tests print it: `46.2 GB/s`, `794 TFLOP/s`."""
    if not math.isfinite(amount):
        return say("unknown")
    for step, letter in _RATE_STEPS:
        if abs(amount) >= 0.9995 * step:
            return f"{short(amount / step)} {letter}{unit}"
    return f"{short(amount)} {unit}"


def percent(share: float) -> str:
    """A share (0..1) as percent, with two digits: `58 %`, `4.2 %`, `0.31 %`."""
    if not math.isfinite(share):
        return say("unknown")
    value = 100 * share
    if abs(value) >= 9.95 or abs(value) < 0.01:
        return f"{value:.0f} %"
    return f"{value:.2g} %"


def number(value: float) -> str:
    """A number without noise: `1,980`, `0.25`."""
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return say("unknown")
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:,.4g}"


def quantity(value: float | int | str | bool, unit: str) -> str:
    """A value with its unit (UCUM: `s`, `B`, `1`, `W`, `{steps}`), formatted for a person."""
    if isinstance(value, bool):
        return say("yes") if value else say("no")
    if isinstance(value, str):
        return value
    if unit == "B":
        return size(value)
    if unit in _RATES:
        return rate(value, unit)
    if unit == "s":
        return duration(value)
    if unit == "1":
        return percent(value) if 0 <= value <= 1 else number(value)
    spoken = _SPOKEN_UNITS.get(unit, unit.strip("{}"))
    text = f"{number(value)} {_noun(spoken, value)}".rstrip()
    return Message(text, f"{{number}} {_noun(spoken, 2)}", {"number": number(value)}) if unit[:1] == "{" else text


def interval(low: float, high: float) -> str:
    """An interval of ratios: `1.31 to 1.37`."""
    return say("{low:.2f} to {high:.2f}", low=low, high=high)


def count(number: int, noun: str) -> str:
    """A count with its noun: `1 GPU`, `1,240 steps`."""
    text = f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
    return Message(text, f"{{number:,}} {noun}s", {"number": number})


def cut(text: str, longest: int) -> str:
    """A text in at most so many characters, cut between words where it has any, with `...` at its end."""
    if len(text) <= longest:
        return text
    kept = text[: longest - 3]
    blank = kept.rfind(" ")
    return (kept[:blank] if blank > longest // 2 else kept).rstrip(" .,;:") + "..."


def capitalised(text: str) -> str:
    """A clause as the beginning of a sentence; what follows its first letter stays as it is."""
    changed = capital(text)
    return Message(changed, "{text}", {"text": text}, CAPITALISED) if isinstance(text, Message) else changed


def joined(parts: Sequence[str]) -> str:
    """Words or clauses in one: `a, b and c`."""
    first, last = row(", ", parts[:-1]) if len(parts) > 2 else parts[0] if parts[1:] else "", parts[-1]
    return say("{items} and {last}", items=first, last=last) if first and last else first or last


def joined_clauses(parts: Sequence[str]) -> str:
    """Whole clauses in one: as `joined` in English, with another word between them in other languages."""
    first, last = row(", ", parts[:-1]) if len(parts) > 2 else parts[0] if parts[1:] else "", parts[-1]
    return say("{clauses} and {clause}", clauses=first, clause=last) if first and last else first or last


def chained(parts: Iterable[str]) -> str:
    """Words or clauses in one, with "and" between each two: `a and b and c`; "" for none."""
    return reduce(lambda items, last: say("{items} and {last}", items=items, last=last), [*parts] or [""])


def ranks(numbers: Sequence[int]) -> str:
    """Ranks in words: `rank 7`, `ranks 0-6`, `ranks 0, 2, 5`, `9 ranks (0, 2, ... and others)`."""
    listed = sorted(numbers)
    if len(listed) == 1:
        return say("rank {rank}", rank=listed[0])
    if len(listed) > 2 and listed == list(range(listed[0], listed[-1] + 1)):
        return say("ranks {first}-{last}", first=listed[0], last=listed[-1])
    few = ", ".join(map(str, listed[:8]))
    if len(listed) <= 8:
        return say("ranks {ranks}", ranks=few)
    return say("{count} ranks ({few} and others)", count=len(listed), few=few)


def duration(seconds: float) -> str:
    """Seconds in the unit that reads best, without an exponent: `23.9 ms`, `90 s`, `30 min`, `2h14m`."""
    if not math.isfinite(seconds):
        return say("unknown")
    size = abs(seconds)
    sign = "-" if seconds < 0 else ""
    if round(size / 60) >= 60:
        hours, minutes = divmod(round(size / 60), 60)
        return f"{sign}{hours:,}h{minutes:02d}m" if minutes else f"{sign}{hours:,} h"
    if round(size) >= 120:
        minutes, rest = divmod(round(size), 60)
        return f"{sign}{minutes}m{rest:02d}s" if rest else f"{sign}{minutes} min"
    if size >= 0.9995 or size == 0:
        return f"{short(seconds)} s"
    if size >= 0.9995e-3:
        return f"{short(seconds * 1e3)} ms"
    return f"{short(seconds * 1e6)} µs"


def forecast(seconds: float) -> str:
    """A time to come, as precisely as a trend knows it: seconds, then whole minutes, then whole hours."""
    if not math.isfinite(seconds):
        return duration(seconds)
    unit = 1 if seconds < 120 else 60 if seconds < 36_000 else 3600
    return duration(round(seconds / unit) * unit)


def short(value: float) -> str:
    """Three significant digits, without an exponent: 7.25, 41.2, 1,240."""
    size = abs(value)
    digits = 0 if size >= 100 or value == round(value) else 1 if size >= 10 else 2
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def figure(value: float) -> str:
    """A number of any size in three digits, with an exponent where it needs one: `1,240`, `0.25`, `1e-09`."""
    if abs(value) >= 1e7:
        return f"{value:.3g}"
    return short(value) if abs(value) >= 0.1 or not value else f"{value:.2g}"


def _noun(unit: str, value: float) -> str:
    """A plain noun in the number of its value: "1 step", "50 steps"; symbols (W, MHz) stay."""
    if not (unit.isalpha() and unit.islower() and len(unit) > 3) or unit in ("percent", "mask"):
        return unit
    if value != 1:
        return unit if unit.endswith("s") else unit + "s"
    return unit[:-2] if unit.endswith(("ches", "shes", "xes", "sses")) else unit.removesuffix("s")
