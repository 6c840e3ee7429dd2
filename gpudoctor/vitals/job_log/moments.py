"""Times as logs write them, to compare: one may lack its year, or be of another zone without saying so."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

_ORIGIN = datetime(2000, 1, 1)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_CLOCK = r"(?P<clock>\d\d:\d\d:\d\d)(?:[.,](?P<fraction>\d+))?"
_FORMS = (
    re.compile(
        rf"(?P<year>\d{{4}})[-/](?P<month>\d\d)[-/](?P<day>\d\d)[T ]{_CLOCK}"
        r"\s?(?P<zone>Z|UTC|[+-]\d\d:?\d\d)?"
    ),
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


@dataclass(frozen=True, slots=True)
class Moment:
    """A time as a log writes it."""

    local: float
    """Seconds, in its own zone; of the year 2000 where it has none."""
    year: bool
    zone: float | None
    """Seconds east of UTC; None where it does not say."""


def moment(stamp: str) -> Moment | None:
    """The time of a stamp; None for one without a day."""
    for form in _FORMS:
        found = form.search(stamp)
        if found is None:
            continue
        parts = found.groupdict()
        try:
            name = parts.get("name")
            month = int(parts["month"]) if name is None else 1 + _MONTHS.index(name)
            hour, minute, second = map(int, parts["clock"].split(":"))
            whole = datetime(int(parts.get("year") or 2000), month, int(parts["day"]), hour, minute, second)
        except ValueError:
            return None
        local = (whole - _ORIGIN).total_seconds() + float(f"0.{parts['fraction'] or 0}")
        return Moment(local, bool(parts.get("year")), _zone(parts.get("zone")))
    return None


def seconds_of(stamp: str) -> float | None:
    """A time as seconds, to compare with others of one job; of a clock without a day since midnight."""
    found = moment(stamp)
    if found is not None:
        return found.local
    clock = _TIME.search(stamp)
    if clock is None:
        return None
    hours, minutes, seconds = map(int, clock["clock"].split(":"))
    return hours * 3600.0 + minutes * 60 + seconds + float(f"0.{clock['fraction'] or 0}")


def same_death(kill: Moment, death: Moment) -> bool:
    """Whether a kill at one time may be what a log tells of at another."""
    later = _utc(death) - _utc(kill)
    if not (kill.year and death.year):
        later = _this_year(death) - _this_year(kill)
    if -_LATER <= later <= _EARLIER:
        return True
    if kill.zone is not None and death.zone is not None:
        return False
    hours = round(later / 3600)
    return abs(hours) <= _FARTHEST and abs(later - 3600 * hours) <= _LATER


def _utc(one: Moment) -> float:
    return one.local - (one.zone or 0.0)


def _this_year(one: Moment) -> float:
    """Seconds of a common year: one of the two times has none."""
    whole = _ORIGIN + timedelta(seconds=one.local)
    return (whole.replace(year=2000) - _ORIGIN).total_seconds()


def _zone(text: str | None) -> float | None:
    if not text:
        return None
    if text in ("Z", "UTC"):
        return 0.0
    sign = -1.0 if text[0] == "-" else 1.0
    return sign * (int(text[1:3]) * 3600 + int(text[-2:]) * 60)
