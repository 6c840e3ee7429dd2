"""GPUs by name: how many bytes each has and which architecture it is."""

import difflib
import re
from functools import lru_cache

from gpudoctor.errors import UsageError
from gpudoctor.estimate.result import Device
from gpudoctor.estimate.tables import read_table
from gpudoctor.lang import say

COMMON = ("RTX 4090", "L4", "A100 40GB", "L40S", "A100 80GB", "H100 80GB", "H200")
"""What is shown when no card is named and the machine has none."""

_UNITS = {"b": 1, **{f"{prefix}b": 1000**at for at, prefix in enumerate("kmgt", 1)}}
_UNITS |= {f"{prefix}ib": 1024**at for at, prefix in enumerate("kmgt", 1)} | {"g": 1 << 30, "m": 1 << 20}
_AMOUNT = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[a-z]+)?")


@lru_cache(maxsize=1)
def devices() -> dict[str, Device]:
    """Every known GPU by its name as sold."""
    return {
        row["name"]: Device(
            name=row["name"],
            bytes=row["bytes"],
            capability=tuple(row["capability"]) if row["capability"] else None,
            context=row.get("context"),
        )
        for row in read_table("gpus.json")["gpus"]
    }


@lru_cache(maxsize=1)
def _spellings() -> dict[str, str]:
    found: dict[str, str] = {}
    for row in read_table("gpus.json")["gpus"]:
        for spelling in (row["name"], *row["aliases"]):
            found.setdefault(_plain(spelling), row["name"])
    return found


def _plain(name: str) -> str:
    text = re.sub(
        r"\b(nvidia|geforce|tesla|amd|instinct|sxm\d?|pcie|hbm\d?e?)\b",
        "",
        name.lower().replace("_", "-").replace("-", " "),
    )
    return re.sub(r"[^a-z0-9]", "", text)


def device(name: str | int) -> Device:
    """A GPU by name (`h100`, `RTX 4090`, `NVIDIA A100-SXM4-80GB`) or by its memory (`24GB`, `24`, `80GiB`, bytes).

    Raises `UsageError` for what is neither.
    """
    spelled = _plain(str(name))
    found = _spellings().get(spelled)
    if found is not None:
        return devices()[found]
    amount = _AMOUNT.fullmatch(str(name).strip().lower())
    if amount is not None and (amount["unit"] or "b") in _UNITS:
        number = float(amount["number"])
        unit = amount["unit"] or ("gb" if number <= 1024 else "b")  # a plain number this small means gigabytes
        return _by_bytes((unit == "gb" and _sold_as(number)) or int(number * _UNITS[unit]), str(name).strip())
    begins = [sold for spelling, sold in _spellings().items() if spelling.startswith(spelled)] if spelled else []
    if len(set(begins)) == 1:
        return devices()[begins[0]]
    near = begins or [_spellings()[each] for each in difflib.get_close_matches(spelled, _spellings(), n=4, cutoff=0.5)]
    nearest = say("; the nearest known are {near}", near=", ".join(list(dict.fromkeys(near))[:4])) if near else ""
    raise UsageError(
        "--gpu {name!r} is not known{nearest}. Give a name such as A100 80GB, or its memory such as 24GiB",
        name=name,
        nearest=nearest,
    )


def _sold_as(gigabytes: float) -> int:
    """The least memory of the known cards that are sold under this number; 0 where none is."""
    sold = (each.bytes for each in devices().values() if 0.93 <= each.bytes / (gigabytes * (1 << 30) or 1) <= 1)
    return min(sold, default=0)


def _by_bytes(amount: int, text: str) -> Device:
    if not 1 << 28 <= amount <= 1 << 44:
        raise UsageError(
            "--gpu {text!r} is {amount:,} bytes; a card has from 256 MiB to 16 TiB (give a unit, such as 24GiB)",
            text=text,
            amount=amount,
        )
    return Device(name=f"{text} GB" if text.isdigit() and int(text) <= 1024 else text, bytes=amount)
