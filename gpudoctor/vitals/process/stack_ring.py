"""What the stacks of one process have shown within the window."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from gpudoctor.model.signs.process import Frame, Place
from gpudoctor.vitals.process.classify_stack import ClassifiedStack

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
    """Seconds of the window."""
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
        while self.looks and self.looks[0][0] < now - self.length:
            self.looks.popleft()
        while self.failures and self.failures[0] < now - self.length:
            self.failures.popleft()
        if len(self.looks) > _BEGUN and self.looks[0][1].phase == "start":
            self._forget_start()

    def _forget_start(self) -> None:
        row = 0
        for place, (_, look) in enumerate(self.looks):
            row = 0 if look.phase == "start" else row + 1
            if row == _BEGUN:
                began = self.looks[place + 1 - _BEGUN][0]
                while self.looks[0][0] < began:
                    self.looks.popleft()
                while self.failures and self.failures[0] < began:
                    self.failures.popleft()
                return

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
        counts: dict[tuple[str, str, str, str, int], int] = {}
        episodes: dict[tuple[str, str, str, str, int], int] = {}
        first: dict[tuple[str, str, str, str, int], ClassifiedStack] = {}
        before: tuple[str, str, str, str, int] | None = None
        for _, look in self.looks:
            user = look.user
            key = (look.phase, look.kind, look.via, user.path if user else "", user.line if user else 0)
            counts[key] = counts.get(key, 0) + 1
            if key != before:
                episodes[key] = episodes.get(key, 0) + 1
            before = key
            first[key] = look
        ordered = sorted(counts, key=lambda key: -counts[key])[:_PLACES]
        return tuple(_place(first[key], counts[key], episodes[key]) for key in ordered)


def _place(look: ClassifiedStack, count: int, episodes: int) -> Place:
    user = look.user
    return Place(
        phase=look.phase,
        kind=look.kind,
        via=look.via,
        path=user.path if user else "",
        line=user.line if user else 0,
        function=user.name if user else "",
        text=look.text,
        count=count,
        episodes=episodes,
    )
