"""Sizes and times in the words of schedulers and containers."""

import re

_UNITS = {
    "": 1,
    "k": 1000,
    "m": 1000**2,
    "g": 1000**3,
    "t": 1000**4,
    "p": 1000**5,
    "ki": 1 << 10,
    "mi": 1 << 20,
    "gi": 1 << 30,
    "ti": 1 << 40,
    "pi": 1 << 50,
}


def byte_count(text: str, *, binary: bool, default: str = "") -> int | None:
    """Bytes of `64G`, `512M`, `64Gi`, `1e9`; `binary` reads K, M, G as powers of 1024, as Slurm and Docker do.

    `default` is the unit of a bare number. None for what is no size.
    """
    match = re.fullmatch(r"(\d{1,18}(?:\.\d{1,9})?(?:[eE]\d{1,2})?)\s*([kKmMgGtTpP]?)(i?)[bB]?[nNcC]?", text.strip())
    if match is None:
        return None
    unit = (match[2] or default).lower()
    if unit and (binary or match[3]):
        unit += "i"
    return int(float(match[1]) * _UNITS.get(unit, 1))


def slurm_seconds(text: str) -> float | None:
    """Seconds of Slurm's time forms: M, M:S, H:M:S, D-H, D-H:M, D-H:M:S; None for no limit or no time."""
    match = re.fullmatch(r"(?:(\d{1,6})-)?(\d{1,6})(?::(\d{1,6}))?(?::(\d{1,6}))?", text.strip())
    if match is None:
        return None
    days, first, second, third = (int(item) if item else 0 for item in match.groups())
    if match[1] is not None:
        seconds = days * 86400 + first * 3600 + second * 60 + third
    elif match[4] is not None:
        seconds = first * 3600 + second * 60 + third
    else:
        seconds = first * 60 + second
    return float(seconds) or None
