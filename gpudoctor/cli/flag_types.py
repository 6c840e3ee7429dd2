"""Types of flags, shared by the commands: each turns a word into a number or says why it cannot."""

import re

from gpudoctor.cli.argument_parser import BadValue

_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")


def count(text: str) -> int:
    """A whole number from 0 on."""
    try:
        number = int(text)
    except ValueError:
        raise BadValue("{text!r} is not a whole number", text=text) from None
    if number < 0:
        raise BadValue("{text} is negative", text=text)
    return number


def positive(text: str) -> int:
    """A whole number from 1 on."""
    number = count(text)
    if number < 1:
        raise BadValue("{text} is below 1", text=text)
    return number


def seconds(text: str) -> float:
    """A positive, finite number of seconds."""
    try:
        number = float(text)
    except ValueError:
        raise BadValue("{text!r} is not a number of seconds", text=text) from None
    if not 0 < number < float("inf"):
        raise BadValue("{text} is not a positive number of seconds", text=text)
    return number


def duration(text: str) -> float:
    """Seconds from `90`, `90s`, `10m`, `1h30m`."""
    found = _DURATION.fullmatch(text.strip().lower())
    if not found or not any(found.groups()):
        raise BadValue("{text!r} is not a time; write 90s, 10m or 1h30m", text=text)
    hours, minutes, rest = (float(part) if part else 0.0 for part in found.groups())
    number = 3600 * hours + 60 * minutes + rest
    if not 0 < number < float("inf"):
        raise BadValue("{text} is too short to work with", text=text)
    return number
