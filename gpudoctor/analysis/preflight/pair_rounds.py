"""Rounds of disjoint pairs of nodes: two that give each node a near and a far partner, then a round robin."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain


@lru_cache(maxsize=4)  # a search asks again in each round
def pair_rounds(order: tuple[int, ...], most: int, all_pairs_up_to: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Rounds of pairs of these nodes, `most` at most; every two meet if there are few nodes."""
    count = len(order)
    everyone = count - 1 + count % 2
    wanted = everyone if count <= all_pairs_up_to else most
    met: set[tuple[int, int]] = set()
    rounds: list[tuple[tuple[int, int], ...]] = []
    candidates = _mixed_rounds(order) if wanted < everyone else iter(())
    later = (_circle(order, step) for step in range(everyone))
    for index, pairs in enumerate(chain(candidates, later)):
        if len(rounds) == wanted:
            break
        new = tuple(pair for pair in pairs if pair not in met)
        # A round robin leaves out who has met already; a round of few pairs costs as much as a full one.
        if index < 2 or new:
            rounds.append(new)
            met |= {*new, *((b, a) for a, b in new)}
    return tuple(rounds)


def _mixed_rounds(order: Sequence[int]) -> Iterator[list[tuple[int, int]]]:
    """Two rounds; in the first, every second quartet of nodes is paired far and the others near."""
    half = len(order) // 2
    low, high = order[:half], order[half : 2 * half]
    for parity in (0, 1):
        pairs = []
        for start in range(0, half, 2):
            stop = start + 2
            if (start // 2) % 2 == parity and stop <= half:
                pairs += [(low[start], low[start + 1]), (high[start], high[start + 1])]
            else:
                pairs += list(zip(low[start:stop], high[start:stop], strict=True))
        if len(order) % 2 and parity:  # who sat out in the first round plays for one of the last pair
            first, _ = pairs.pop()
            pairs.append((first, order[-1]))
        yield pairs


def _circle(order: Sequence[int], step: int) -> list[tuple[int, int]]:
    """Round `step` of a round robin: the first stays, the others turn."""
    players: list[int | None] = list(order) + [None] * (len(order) % 2)
    rest = players[1:]
    turn = step % len(rest)
    ring = [players[0], *rest[turn:], *rest[:turn]]
    size = len(ring)
    pairs = ((ring[i], ring[size - 1 - i]) for i in range(size // 2))
    return [(a, b) for a, b in pairs if a is not None and b is not None]
