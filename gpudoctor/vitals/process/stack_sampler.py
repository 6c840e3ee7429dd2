"""The thread that looks at the stacks of the ranks in turn, and what they have shown within the window."""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from threading import Event, Lock, Thread

from gpudoctor.model.signs.process import Frame, Place
from gpudoctor.vitals.process.classify_stack import ClassifiedStack, SourceLines, classify, is_worker, whole
from gpudoctor.vitals.process.dump import Dump, DumpError, dump

# What the stacks of one process have shown within the window.

_MOST = 600
"""Samples that are kept: two minutes at the highest rate."""
_BEGUN = 10
"""Looks in a row past the start after which the start is over; what it took is no share of the loop."""
_PLACES = 40
"""Places that a window carries; the rest is one of a few looks each."""


@dataclass(slots=True)
class StackRing:
    """Looks at one process, oldest first."""

    length: float
    looks: "deque[tuple[float, ClassifiedStack]]" = field(default_factory=lambda: deque(maxlen=_MOST))
    failures: "deque[float]" = field(default_factory=lambda: deque(maxlen=_MOST))
    stack: tuple[Frame, ...] = ()
    since: float = 0.0
    """When the newest stack was first seen, unchanged since."""

    def add(self, t: float, look: ClassifiedStack, frames: Sequence[Frame]) -> None:
        """A good sample; frames innermost first."""
        stack = tuple(reversed(frames))
        if stack != self.stack:
            self.stack, self.since = stack, t
        self.looks.append((t, look))

    def fail(self, t: float) -> None:
        """A sample that failed or was cut."""
        self.failures.append(t)

    def forget(self, now: float) -> None:
        """Drop what lies before the window, and the program's start once it is over."""
        self._drop(now - self.length)
        if len(self.looks) > _BEGUN and self.looks[0][1].phase == "start":
            row: list[float] = []
            for t, look in self.looks:
                row = [] if look.phase == "start" else [*row, t]
                if len(row) == _BEGUN:
                    self._drop(row[0])
                    break

    def _drop(self, before: float) -> None:
        while self.looks and self.looks[0][0] < before:
            self.looks.popleft()
        while self.failures and self.failures[0] < before:
            self.failures.popleft()

    @property
    def still(self) -> float:
        """Seconds without any change of the stack, up to the newest sample."""
        return self.looks[-1][0] - self.since if self.looks else 0.0

    @property
    def seconds(self) -> float:
        """From the oldest to the newest sample."""
        return self.looks[-1][0] - self.looks[0][0] if self.looks else 0.0

    def trail(self) -> tuple[tuple[float, str], ...]:
        """Time and phase of each sample."""
        return tuple((t, look.phase) for t, look in self.looks)

    def places(self) -> tuple[Place, ...]:
        """Where the samples found it, most counted first."""
        keys = [
            (look.phase, look.kind, look.via, look.user.path if look.user else "", look.user.line if look.user else 0)
            for _, look in self.looks
        ]
        episodes = Counter(key for key, _ in groupby(keys))
        newest = {key: look for key, (_, look) in zip(keys, self.looks, strict=True)}
        return tuple(
            Place(
                phase=key[0],
                kind=key[1],
                via=key[2],
                path=key[3],
                line=key[4],
                function=user.name if (user := newest[key].user) else "",
                text=newest[key].text,
                count=count,
                episodes=episodes[key],
            )
            for key, count in Counter(keys).most_common(_PLACES)
        )


# The thread that looks at the stacks: ranks in turn, five times a second at first and then once.

BURST_SECONDS, BURST_INTERVAL, BURST_LOOKS = 10.0, 0.2, 36
INTERVAL = 1.0
_REST = 0.05
"""Seconds between the end of a look and the next one at least."""
_SHARE, _BURST_SHARE = 0.02, 0.15
"""Of one core, the most that dumps take: where one costs more they get rarer."""
_WORKER_TURN = 4
"""Every so many looks goes to a loader worker while the loop waits for data."""
_PATIENCE_WITH_RACES = 8
"""Failed looks in a row, after which a process counts as one that cannot be read."""

Clock = Callable[[], float]


class SampledProcess:
    """One process whose stacks are looked at."""

    def __init__(self, pid: int, lines: SourceLines, device: bool, length: float) -> None:
        self.pid = pid
        self.lines, self.device = lines, device
        self.ring = StackRing(length)
        self.worker_ring = StackRing(length)
        self.workers: tuple[int, ...] = ()
        self.blind: Dump | None = None
        """The failure that made us give up; None while it can be read."""
        self.races = 0
        self.turn = 0

    @property
    def hungry(self) -> bool:
        """Whether the newest looks found it waiting for its workers."""
        newest = list(self.ring.looks)[-8:]
        return bool(self.workers) and sum(look.phase == "data_wait" for _, look in newest) * 4 >= len(newest) > 0


class StackSampler:
    """Looks at the targets until `close`. `lock` guards their rings."""

    def __init__(self, pyspy: str | None, clock: Clock, look: Callable[[int, str | None], Dump] = dump) -> None:
        self.lock = Lock()
        self.taken = 0
        self._pyspy, self._clock, self._look = pyspy, clock, look
        self._targets: list[SampledProcess] = []
        self._place = 0
        self._burst_until = clock() + BURST_SECONDS
        self._cost = 0.01
        self._stop, self._paused = Event(), False
        self._thread: Thread | None = None

    def start(self, targets: list[SampledProcess]) -> None:
        """Begin, or go on with other targets."""
        with self.lock:
            self._targets = list(targets)
        if self._thread is None:
            self._thread = Thread(target=self._work, name="stacks", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End; a dump that is under way is waited for, for a moment."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(1.0)

    def hurry(self) -> None:
        """Look more often for a while: something has changed."""
        self._burst_until = self._clock() + BURST_SECONDS

    def pause(self, on: bool) -> None:
        """Stop looking, or go on."""
        self._paused = on

    def _work(self) -> None:
        while not self._stop.is_set():
            began = self._clock()
            target = None if self._paused else self._next()
            if target is not None:
                target.turn += 1
                if target.hungry and target.turn % _WORKER_TURN == 0:
                    self._take_worker(target)
                else:
                    self._take_rank(target)
                self.taken += 1
            self._stop.wait(max(_REST, self._interval() - (self._clock() - began)))

    def _interval(self) -> float:
        now = self._clock()
        # A machine that is busy gives few looks in the first seconds: the burst goes on until there are enough.
        late = self.taken < BURST_LOOKS and now < self._burst_until + BURST_SECONDS
        burst = now < self._burst_until or late
        least, share = (BURST_INTERVAL, _BURST_SHARE) if burst else (INTERVAL, _SHARE)
        return max(least, self._cost / share)

    def _next(self) -> SampledProcess | None:
        with self.lock:
            seeing = [target for target in self._targets if target.blind is None]
        if not seeing:
            return None
        self._place = (self._place + 1) % len(seeing)
        return seeing[self._place]

    def _take_rank(self, target: SampledProcess) -> None:
        seen = self._look(target.pid, self._pyspy)
        now = self._clock()
        self._price(seen)
        main = seen.main
        with self.lock:
            if seen.error is not None:
                self._failed(target, seen, now)
            elif main is None or not whole(main.frames):
                target.ring.fail(now)
            else:
                target.races = 0
                target.ring.add(now, classify(main.frames, target.lines.text, target.device), main.frames)

    def _failed(self, target: SampledProcess, seen: Dump, now: float) -> None:
        target.ring.fail(now)
        target.races += 1
        lasting = seen.error in (DumpError.NO_PYSPY, DumpError.FORBIDDEN, DumpError.NOT_PYTHON)
        hopeless = target.races >= _PATIENCE_WITH_RACES and not target.ring.looks
        if (lasting and not target.ring.looks) or hopeless:
            target.blind = seen

    def _take_worker(self, target: SampledProcess) -> None:
        pid = target.workers[target.turn // _WORKER_TURN % len(target.workers)]
        seen = self._look(pid, self._pyspy)
        now = self._clock()
        self._price(seen)
        main = seen.main
        if main is None or not is_worker(main.frames):
            return
        with self.lock:
            target.worker_ring.add(now, classify(main.frames, target.lines.text, target.device), main.frames)

    def _price(self, seen: Dump) -> None:
        if seen.cpu > 0:
            self._cost += 0.3 * (seen.cpu - self._cost)
