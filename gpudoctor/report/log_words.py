"""The time line of a log in words, for every format that people read."""

from collections.abc import Iterator

from gpudoctor.model.log_message import LogMoment, LogSummary
from gpudoctor.text import count

ROLES = {
    "root": "first cause",
    "same": "same cause",
    "cascade": "follows",
    "handled": "handled",
}
"""What a role is called; the words of the JSON report are shorter."""


def read_words(log: LogSummary) -> str:
    """What was read, in a line."""
    parts = [count(log.lines, "line")]
    if len(log.files) > 1:
        parts.append(count(len(log.files), "file"))
    if log.ranks:
        of = f" of {log.world}" if log.world and log.world >= len(log.ranks) else ""
        parts.append(f"{len(log.ranks)}{of} rank{'s' if len(log.ranks) != 1 or of else ''} named")
    if log.last_step is not None:
        parts.append(f"last step {log.last_step:,}")
    return ", ".join(parts)


def moment_rows(log: LogSummary) -> Iterator[tuple[str, str, str]]:
    """Role, place and text of each moment."""
    for item in log.moments:
        yield ROLES.get(item.role, item.role), place_of(item), item.text


def place_of(item: LogMoment) -> str:
    """Where: line, rank, node, time, step, and how often."""
    parts = [
        f"line {item.line:,}"
        if item.count == 1
        else f"lines {item.line:,}-{item.last_line:,} ({item.count:,}x)"
    ]
    if item.rank is not None:
        parts.append(f"rank {item.rank}")
    if item.node:
        parts.append(item.node)
    if item.time:
        parts.append(item.time)
    if item.step is not None:
        parts.append(f"after step {item.step:,}")
    return ", ".join(parts)
