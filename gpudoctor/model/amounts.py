"""Amounts in sentences: checks and rules write whole messages, so they need the reporters' short form."""

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
