"""Which kinds of blocks a model has in a row, and how few of them tell about all."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A row of blocks: some at the start, then a group that repeats, whole or cut off at the end."""

    layers: int
    """All blocks."""
    prefix: int
    """Blocks at the start that do not repeat (dense ones before mixtures of experts)."""
    period: int
    """Blocks in the group that repeats."""

    tail: int = 0
    """Blocks at the end that are told apart by their place from there, where these are more than a group."""

    @property
    def start(self) -> int:
        """Blocks at the start that are told apart by their place: those before the groups, as many as the last
        group lacks, and a group."""
        return self.prefix + (self.layers - self.prefix) % self.period + self.period

    @property
    def end(self) -> int:
        """Blocks at the end that are told apart by their place."""
        return max(self.tail, self.period)

    def depths(self, count: int) -> tuple[int, ...]:
        """Up to `count` depths and at least two, a group apart, whose last block is of the kind of the whole
        model's; all of the model where it has no more.

        The least has two groups, so that those at either end are there.
        """
        least = self.start + self.period
        found = tuple(least + self.period * at for at in range(count))
        return tuple(each for each in found if each < self.layers) if found[1] < self.layers else (self.layers,)


def pattern(kinds: Sequence[Hashable]) -> Pattern:
    """The shortest repeating group, after the shortest start, of a row of kinds."""
    count = len(kinds)
    best = Pattern(layers=count, prefix=0, period=max(count, 1))
    for prefix in range(count):
        for period in range(1, (count - prefix) // 2 + 1):
            if all(kinds[at] == kinds[at + period] for at in range(prefix, count - period)):
                if prefix + period < best.prefix + best.period:
                    best = Pattern(layers=count, prefix=prefix, period=period)
                break
    return best
