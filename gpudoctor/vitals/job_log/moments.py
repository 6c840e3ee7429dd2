"""Times as logs write them, to compare: one may lack its year, or be of another zone without saying so."""

import re
from datetime import datetime, timedelta

_COMMON = 2000  # the year of a time that has none
_ORIGIN = datetime(_COMMON, 1, 1)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_CLOCK = r"(?P<clock>\d\d:\d\d:\d\d)(?:[.,](?P<fraction>\d+))?"
_FORMS = (
    re.compile(rf"(?P<year>\d{{4}})[-/](?P<month>\d\d)[-/](?P<day>\d\d)[T ]{_CLOCK}"),
    re.compile(rf"(?P<name>[A-Z][a-z]{{2}}) +(?P<day>\d\d?) {_CLOCK}(?: (?P<year>\d{{4}}))?"),
    re.compile(rf"(?P<month>\d{{1,2}})(?P<day>\d\d) {_CLOCK}"),
)
"""ISO, `Feb  3 10:00:00` with a year behind it or without, glog's `0203 10:00:00`."""
_TIME = re.compile(_CLOCK)
_EARLIER = 2700.0
"""Seconds by which a kill may be before the last words of the others: watchdogs wait half an hour."""
_LATER = 120.0
"""Seconds by which it may seem to be behind them: logs are buffered."""
_FARTHEST = 26
"""Hours between two zones at most."""


def moment(stamp: str) -> float | None:
    """The time of a stamp as seconds in its own zone, of the year 2000 where it has none; None without a day."""
    parts = next((found.groupdict() for form in _FORMS if (found := form.search(stamp))), None)
    if parts is None:
        return None
    try:
        name = parts.get("name")
        month = int(parts["month"]) if name is None else 1 + _MONTHS.index(name)
        hour, minute, second = map(int, parts["clock"].split(":"))
        whole = datetime(int(parts.get("year") or _COMMON), month, int(parts["day"]), hour, minute, second)
    except ValueError:
        return None
    return (whole - _ORIGIN).total_seconds() + float(f"0.{parts['fraction'] or 0}")


def seconds_of(stamp: str) -> float | None:
    """A time as seconds, to compare with others of one job; of a clock without a day since midnight."""
    found = moment(stamp)
    if found is not None:
        return found
    clock = _TIME.search(stamp)
    if clock is None:
        return None
    hours, minutes, seconds = map(int, clock["clock"].split(":"))
    return hours * 3600.0 + minutes * 60 + seconds + float(f"0.{clock['fraction'] or 0}")


def same_death(kill: float, death: float) -> bool:
    """Whether a kill at one time may be what a log tells of at another; zones differ by whole hours."""
    whole = [_ORIGIN + timedelta(seconds=each) for each in (kill, death)]
    if _COMMON in (whole[0].year, whole[1].year):
        whole = [each.replace(year=_COMMON) for each in whole]
    later = (whole[1] - whole[0]).total_seconds()
    hours = round(later / 3600)
    return -_LATER <= later <= _EARLIER or (abs(hours) <= _FARTHEST and abs(later - 3600 * hours) <= _LATER)
