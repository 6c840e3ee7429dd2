"""The events of a file while its lines are read: what came again, what the training went on after."""

import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import islice

from gpudoctor.analysis.job_log.consequences import OF_A_DEATH
from gpudoctor.analysis.job_log.handled import WENT_ON
from gpudoctor.model.log_message import Bearing
from gpudoctor.model.signs.job_log import LogEvent
from gpudoctor.vitals.job_log.matching import skeleton

_MOST_EVENTS = 20_000
"""Different events; a log of 4,096 ranks that all die has four of each."""
_MOST_ALIKE = 50
"""Events of one kind, type and rank that are kept apart by their texts."""
_MOST_FOLLOWED = 200
"""Failures behind which every line is read for signs that the training went on."""
_MOST_FOLLOWED_ALIKE = 5
"""The same, of one kind, type and rank."""
_MOST_RUNS = 50
"""Runs in one file behind whose failures every line is read."""
_MOST_SEEN = 50
"""Steps behind a failure that are remembered."""
_LAST = 200
"""Events for which a step counts: the last ones."""
_HABIT = 10
"""Times that the training went on after a failure, after which one more is not what ended it."""
_LASTS, _SHORT = 3, 10
"""Times that a lasting condition must have come, unless a few lines were pasted."""
_NEAR_END = 12
"""Lines, or a fiftieth of the file, that count as its end."""


@dataclass(slots=True)
class _Draft:
    """An event while the lines behind it are still to come."""

    event: LogEvent
    count: int
    last_line: int
    """How often it came, and where last: these change too often for a new event each time."""
    key: Hashable
    """By which another event is the same."""
    step: float | None = None
    """The step or epoch printed last before it."""
    seen: set[float] = field(default_factory=set)
    """Steps printed after it."""
    served_at: int = 0
    """The last line that counts in `served`: the end of a file is read twice."""
    served: int = 0
    logged_behind: int = 0
    restated: bool = False
    goes_on: bool = False
    succeeded: bool = False
    """What shows that it was handled, behind its last line, as in `LogEvent`."""
    reported: bool = False
    """Whether it is of a scheduler's report above the output of its job: what comes behind was before."""
    ordinary: int = 0
    """The reader's count of ordinary lines when it came last."""

    @property
    def handled(self) -> bool:
        """Whether the training went on after it."""
        return (
            len(self.seen) >= WENT_ON
            and not self.event.lasting
            and self.event.bearing in (Bearing.CAUSE, Bearing.SYMPTOM)
        )

    def came_again(self, line: int, times: int) -> None:
        """Count it so many times more, the last time on a line."""
        self.count += times
        self.last_line = max(line, self.last_line)
        self.served = self.logged_behind = 0
        self.restated = self.goes_on = self.succeeded = False


class Drafts:
    """Events in the order of their lines; alike ones are counted."""

    def __init__(self) -> None:
        self._drafts: dict[int, _Draft] = {}
        self._next = 0
        self._same: dict[Hashable, int] = {}
        """By what an event is: the last one of it."""
        self._first_handled: dict[Hashable, int] = {}
        """By the same: the first one, if the training went on after it."""
        self._survived: dict[Hashable, int] = {}
        """Failures after which the training went on, by kind, type and rank."""
        self._texts: dict[Hashable, int] = {}
        """Different texts by kind, type and rank."""
        self._followed: dict[Hashable, int] = {}
        self._handled: list[int] = []
        """A heap of the events after which the training went on; some may be gone."""
        self._runs = 1
        self._run_begins = 1
        """The line at which the present run begins, as far as it is known."""
        self._begins_again: int | None = None
        """The line at which another run seems to begin, until it shows something of its own."""
        self._in_doubt: set[int] = set()
        """The events of the run before that one."""
        self._undone: dict[str, re.Pattern[str]] = {}
        """What may undo an event, as it stands in the wordings and compiled."""

    def __bool__(self) -> bool:
        return bool(self._drafts)

    def add(self, event: LogEvent, step: float | None, ordinary: int = 0) -> tuple[int, bool, bool]:
        """Keep an event after a step; gives its number, whether it is new, and whether it is to be followed."""
        if event.fatal and not (event.lasting or event.last):
            self.alive(event.line)
        alike = _alike(event)
        key: Hashable = (event.code, event.kind, event.rank, "")
        if event.bearing is Bearing.CAUSE:
            key = (event.code, event.kind, event.rank, skeleton(event.text[:120]))
            if key not in self._same:
                self._texts[alike] = self._texts.get(alike, 0) + 1
                if self._texts[alike] > _MOST_ALIKE:
                    key = alike
        old = self._same.get(key)
        if old is not None:
            draft = self._drafts[old]
            habit = self._survived.get(alike, 0) >= _HABIT
            if not (draft.handled or (habit and draft.seen)):
                draft.came_again(event.line, event.count)
                if _how_printed(draft.event) != _how_printed(event):
                    draft.event = _less_handled(draft.event, event)
                again = ordinary > draft.ordinary and not draft.seen  # another program, which may go on
                draft.ordinary = ordinary
                return old, False, again and self._follows(event, alike)
            if self._survived.get(alike, 0) < _HABIT:  # it needs no following any more: the next one may
                self._followed[alike] = max(0, self._followed.get(alike, 0) - 1)
            self._survived[alike] = self._survived.get(alike, 0) + draft.count
            first = self._first_handled.get(key)
            if first is None or first not in self._drafts:
                self._first_handled[key] = old
            else:  # of those after which the training went on, the first one counts them all
                self._drafts[first].came_again(draft.last_line, draft.count)
                del self._drafts[old]
        if len(self._drafts) >= _MOST_EVENTS and not self._make_room():
            return -1, False, False
        if event.undone and event.undone not in self._undone:
            self._undone[event.undone] = re.compile(event.undone)
        number = self._same[key] = self._next
        self._next += 1
        self._drafts[number] = _Draft(event, event.count, event.last_line, key, step, ordinary=ordinary)
        return number, True, self._follows(event, alike)

    def of_good_pod(self, line: int) -> None:
        """A line in the description of a pod that ended well: what it says of earlier states is overcome."""
        for draft in self._drafts.values():
            if draft.event.outside and draft.event.line == line:
                draft.succeeded = True

    def undone_by(self, text: str, line: int) -> None:
        """A line behind a failure that may show that it was overcome."""
        said = {words for words, pattern in self._undone.items() if pattern.search(text)}
        for draft in self._drafts.values() if said else ():
            if draft.event.undone in said and draft.last_line < line:
                draft.succeeded = True

    def _follows(self, event: LogEvent, alike: Hashable) -> bool:
        """Whether every line behind an event is to be read."""
        follow = event.fatal and self._followed.get(alike, 0) < _MOST_FOLLOWED_ALIKE
        follow = follow and sum(self._followed.values()) < _MOST_FOLLOWED
        if follow:
            self._followed[alike] = self._followed.get(alike, 0) + 1
        return follow

    def _make_room(self) -> bool:
        """Forget the oldest event after which the training went on; whether there was one."""
        while self._handled:
            old = heappop(self._handled)
            draft = self._drafts.pop(old, None)
            if draft is not None:
                if self._same.get(draft.key) == old:
                    del self._same[draft.key]
                return True
        return False

    def repeat(self, number: int, line: int) -> bool:
        """Count an event that came again on a line; whether it is still open."""
        draft = self._drafts.get(number)
        if draft is None or draft.handled:
            return False
        draft.came_again(line, 1)
        return True

    def begun_again(self, line: int, *, surely: bool) -> None:
        """The program began again at a line: what failed before was not its end.

        Unless this is sure, an exception counts until the new run shows something of its own.
        """
        if self._begins_again is None:
            self._begins_again = line
            self._in_doubt.clear()
        for number, draft in self._drafts.items():
            if not draft.event.exception:
                draft.event = replace(draft.event, earlier=True)
            elif not draft.event.earlier:
                self._in_doubt.add(number)
        self._same.clear()
        self._first_handled.clear()
        if self._runs < _MOST_RUNS:  # the failures of the next run are followed like those of the first
            self._runs += 1
            self._followed.clear()
        if surely:
            self.alive(line + 1)

    def alive(self, line: int) -> None:
        """The run that began last showed something of its own on a line: a step, a failure, another line."""
        if self._begins_again is None or line <= self._begins_again:
            return
        for number in self._in_doubt & self._drafts.keys():
            draft = self._drafts[number]
            draft.event = replace(draft.event, earlier=True)
        self._run_begins, self._begins_again = self._begins_again, None
        self._in_doubt.clear()

    @property
    def run_begins(self) -> int:
        """The line at which the run began that the file's failures are of."""
        return self._run_begins

    @property
    def failed(self) -> bool:
        """Whether something that may have ended a process has come, and nothing shows that it did not."""
        return any(
            item.event.fatal and not (item.event.earlier or item.event.last or item.handled)
            for item in self._drafts.values()
        )

    def progress(self, step: float, rank: int | None, line: int) -> None:
        """A step was printed. Step 0 shows nothing: a bar is printed again as its program ends."""
        if step == 0:
            return
        for number, draft in islice(reversed(self._drafts.items()), _LAST):
            known = draft.event.rank
            if (
                draft.last_line < line
                and not draft.reported
                and step != draft.step
                and (rank is None or known is None or rank == known)
                and len(draft.seen) < _MOST_SEEN
            ):
                was = draft.handled
                draft.seen.add(step)
                if draft.handled and not was:
                    heappush(self._handled, number)

    def reported(self) -> None:
        """The scheduler says that the output of the job follows its report."""
        for draft in islice(reversed(self._drafts.values()), _LAST):
            draft.reported = draft.event.text.startswith("TERM_")

    def served(self, line: int) -> None:
        """A server answered a request."""
        for draft in islice(reversed(self._drafts.values()), _LAST):
            if max(draft.last_line, draft.served_at) < line:
                draft.served, draft.served_at = draft.served + 1, line

    def restated(self, number: int) -> None:
        """The program printed the message of an exception again."""
        if draft := self._drafts.get(number):
            draft.restated = True

    def goes_on(self, number: int) -> None:
        """The program said that it goes on without what failed."""
        if draft := self._drafts.get(number):
            draft.goes_on = True

    def logged(self, line: int) -> None:
        """A logger printed a line that is no error."""
        for draft in islice(reversed(self._drafts.values()), _LAST):
            draft.logged_behind += draft.last_line < line

    def succeeded(self, line: int) -> None:
        """The launcher said that the program ended well."""
        for draft in self._drafts.values():
            draft.succeeded = draft.succeeded or draft.last_line < line

    def ended_well(self, container: str, line: int) -> None:
        """A container of the job, which is done, ended well: failures of its sidecars did not end it."""
        for draft in self._drafts.values():
            of = draft.event.node or draft.event.text.partition(" exited with code ")[0]
            other = of and " " not in of and _service(of) != _service(container)
            draft.succeeded = draft.succeeded or bool(other and draft.last_line < line)

    def done(self, line: int, *, surely: bool) -> None:
        """The log says that the training is done; `surely` if a job script would not say so.

        Behind an exception that is no certain sign: the script goes on after the program has died. Some ranks
        print one more step after another one was killed; two are of a run that was queued again.
        """
        overcome = {
            number
            for number, item in self._drafts.items()
            if item.last_line < line and len(item.seen) > (1 if not item.event.exception else 0)
        }
        deaths = [
            item.last_line
            for number, item in self._drafts.items()
            if item.event.kind in OF_A_DEATH and number not in overcome
        ]
        for number, draft in self._drafts.items():
            event = draft.event
            if draft.last_line >= line or max(deaths, default=0) >= event.line:
                continue
            caught = surely or event.quoted or event.warned or self._survived.get(_alike(event), 0) > 0
            if number in overcome or (event.exception and caught):
                draft.succeeded = True
            elif event.exception:
                draft.event = replace(event, doubtful=True)

    def _count_habits(self) -> None:
        """Count what the training went on after time and again, and then another failure came, among these."""
        latest = max((item.event.line for item in self._drafts.values() if item.event.fatal), default=0)
        survived: dict[Hashable, _Draft] = {}
        times: dict[Hashable, int] = {}
        for draft in self._drafts.values():
            if draft.handled:
                alike = _alike(draft.event)
                survived[alike] = draft
                times[alike] = times.get(alike, 0) + draft.count
        for number, draft in list(self._drafts.items()):
            alike = _alike(draft.event)
            if times.get(alike, 0) >= _HABIT and not draft.handled and draft.last_line < latest:
                survived[alike].came_again(draft.last_line, draft.count)
                del self._drafts[number]

    def finished(self, lines: int, ordinary: int = 0) -> Iterator[LogEvent]:
        """The events of a file of so many lines, of which so many were ordinary."""
        near = lines - max(_NEAR_END, lines // 50)
        self._count_habits()
        times: dict[Hashable, int] = {}
        habits = {alike for alike, survived in self._survived.items() if survived}
        for item in self._drafts.values():
            alike = _alike(item.event)
            times[alike] = times.get(alike, 0) + item.count
            if item.handled:
                habits.add(alike)
        for number, item in self._drafts.items():
            event = item.event
            count = times[_alike(event)] if event.lasting else item.count
            often = count >= _LASTS or (lines <= _SHORT and item.count > 1)
            yield replace(
                event,
                progress=len(item.seen),
                followed=0 if item.reported else ordinary - item.ordinary,
                doubtful=event.doubtful or number in self._in_doubt,
                at_end=item.last_line >= near and often,
                count=item.count,
                last_line=item.last_line,
                served=item.served,
                logged_behind=item.logged_behind,
                restated=item.restated,
                habitual=_alike(event) in habits,
                goes_on=event.goes_on or item.goes_on,
                succeeded=item.succeeded,
            )


def _service(container: str) -> str:
    """The service of a container of docker compose: its name without the number."""
    return container.rstrip("0123456789").rstrip("-_")


def _how_printed(event: LogEvent) -> tuple[bool, ...]:
    return event.quoted, event.warned, event.logged, event.goes_on


def _less_handled(one: LogEvent, other: LogEvent) -> LogEvent:
    """The first event, with what shows of both that the program had caught it."""
    quoted, warned, logged, goes_on = how = tuple(map(min, _how_printed(one), _how_printed(other)))
    if how == _how_printed(one):
        return one
    return replace(one, quoted=quoted, warned=warned, logged=logged, goes_on=goes_on)


def _alike(event: LogEvent) -> Hashable:
    return event.code, event.kind, event.exception, event.rank
