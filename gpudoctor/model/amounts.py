"""Amounts in sentences: checks and rules write whole messages, so they need the reporters' short form."""

import math
from collections.abc import Sequence

_STEPS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def size(amount: float) -> str:
    """Bytes in the unit that leaves one to four digits: `64 MiB`, `1.5 GiB`, `0 B`."""
    for step, unit in _STEPS:
        if amount >= step:
            value = amount / step
            return f"{value:.1f}".rstrip("0").rstrip(".") + f" {unit}" if value < 10 else f"{value:.0f} {unit}"
    return f"{amount:.0f} B"


def count(number: int, noun: str) -> str:
    """A count with its noun: `1 GPU`, `4 GPUs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def cut(text: str, longest: int) -> str:
    """A text in at most so many characters, cut between words where it has any, with `...` at its end."""
    if len(text) <= longest:
        return text
    kept = text[: longest - 3]
    blank = kept.rfind(" ")
    return (kept[:blank] if blank > longest // 2 else kept).rstrip(" .,;:") + "..."


def capitalised(text: str) -> str:
    """A clause as the beginning of a sentence; what follows its first letter stays as it is."""
    return text[:1].upper() + text[1:]


def joined(parts: Sequence[str]) -> str:
    """Words or clauses in one: `a, b and c`."""
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def duration(seconds: float) -> str:
    """Seconds in the unit that reads best, without an exponent: `23.9 ms`, `90 s`, `30 min`, `2h14m`."""
    if not math.isfinite(seconds):
        return "unknown"
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
