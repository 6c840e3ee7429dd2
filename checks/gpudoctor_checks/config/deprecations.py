"""The table of renamed and dropped settings."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from packaging.version import InvalidVersion, Version


@dataclass(frozen=True, slots=True, kw_only=True)
class Renamed:
    """One setting that has another name now, or none."""

    key: str
    new: str
    """What to write instead, or `nothing...`."""
    same: bool
    """Whether the value carries over as it is."""
    since: str
    """The release that deprecated it."""
    gone: str
    """The first release looked at without it; "" while it is there."""
    value: str = ""
    """The value that is meant, where the key itself is still there."""
    files_only: bool = False
    """Whether another check speaks of it where a call has it."""


@cache
def rows(table: str) -> tuple[Renamed, ...]:
    """The rows of one tool; none for a tool without a table."""
    raw = json.loads(files(__package__).joinpath("deprecated_keys.json").read_text("utf-8"))
    return tuple(
        Renamed(
            key=row["key"],
            new=row["new"],
            same=bool(row.get("same")),
            since=row["since"],
            gone=row.get("gone", ""),
            value=row.get("value", ""),
            files_only=bool(row.get("files_only")),
        )
        for row in raw["tables"].get(table, ())
    )


def reached(version: str | None, release: str) -> bool:
    """Whether an installed version is at least a release; false where either is no version."""
    try:
        return bool(version and release) and Version(str(version)) >= Version(release)
    except InvalidVersion:
        return False
