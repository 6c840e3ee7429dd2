"""Whom tests of several nodes accuse of what, and how sure that is."""

from enum import Enum

from gpudoctor.model.finding import Confidence
from gpudoctor.model.records import frozen
from gpudoctor.model.signs.preflight import LinkTest


class Aspect(Enum):
    """In what a test is judged. Each is judged apart from the others."""

    FAILURE = "failure"
    """It gave no figure."""
    BANDWIDTH = "bandwidth"
    """Its bus bandwidth for large messages."""
    LATENCY = "latency"
    """Its time for a small message."""
    LOSS = "loss"
    """Share of its data segments that TCP sent again, in the worse direction."""


class Accused(Enum):
    """What an accusation is about."""

    NODE = "node"
    """One node, whatever its partner."""
    LINK = "link"
    """The path between two nodes that are good with others."""
    DOMAIN = "domain"
    """Most nodes whose names or addresses begin alike: a rack, a switch, a subnet."""
    GROUP = "group"
    """Nodes that are good in pairs and bad in a large group: the one that was found, or all candidates."""


@frozen
class Accusation:
    """Whom tests accuse of what, with the tests that do."""

    accused: Accused
    nodes: tuple[int, ...]
    """Ascending; two for a link."""
    aspect: Aspect
    confidence: Confidence
    tests: tuple[LinkTest, ...]
    """The bad tests, in their order."""
    own: float | None = None
    """Median of the bad tests, in the unit of the quantity; None for failures."""
    peers: float | None = None
    """What peers reached in the same kind of test."""
    share: float | None = None
    """Speed as a share of the peers' (for a latency: their time by its own)."""
    deviations: float | None = None
    """How many robust standard deviations the median of its tests is below its peers."""
    far_only: bool = False
    """Whether it is bad with nodes of other domains only."""
    size: int = 0
    """Of a group: the least number of nodes with which the fault showed."""
    undecided: str = ""
    """What more tests would have to decide, a sentence; "" if nothing."""


@frozen
class Judgement:
    """What the tests so far say."""

    accusations: tuple[Accusation, ...]
    proven: tuple[int, ...]
    """Nodes with a good test of each aspect that was measured, and not accused."""
    undecided: tuple[str, ...]
    """What the tests do not decide, a sentence each; nodes are named by their host names."""
