"""What an examination measures on each node: its cards, or its CPUs, and the rank that works each of them."""

from collections.abc import Iterator, Sequence

from gpudoctor.model.records import frozen
from gpudoctor.preflight.rank_connections import ArrivedRank


@frozen
class MeasuredUnit:
    """A card, or the CPUs of a node, and the rank that measures it."""

    node: int
    local: int
    device: str
    rank: int
    worker: int
    """Index of the worker in its agent."""
    card: int
    """Index of the card in the worker."""


def units_of(node: int, members: Sequence[ArrivedRank]) -> Iterator[MeasuredUnit]:
    """The units of a node with these ranks."""
    cards = max(int(member.about.get("cards", 0)) for member in members)
    first = members[0].rank
    if not cards:
        yield MeasuredUnit(node=node, local=0, device="cpu", rank=first, worker=0, card=0)
    elif len(members) == 1:
        for card in range(cards):
            yield MeasuredUnit(node=node, local=card, device="cuda", rank=first, worker=card, card=card)
    else:
        for local, member in enumerate(members):
            seen = int(member.about.get("cards", 0))
            if seen:  # a launcher may show each rank its own card only
                card = local if local < seen else 0
                yield MeasuredUnit(node=node, local=local, device="cuda", rank=member.rank, worker=0, card=card)
