"""How long each stage may take, and how much it measures, by mode."""

from collections.abc import Mapping

from gpudoctor.model.records import frozen
from gpudoctor.model.signs.preflight import Stage


@frozen
class Budget:
    """Limits and sizes of one mode. Seconds, bytes."""

    mode: str
    limits: Mapping[Stage, float]
    """Longest time of each stage; of a burn, what it may take beyond its own seconds."""
    whole: float
    """Longest time of all stages but storage and burn, which are asked for apart; a stage gets what is left."""
    test_limit: float
    """Longest time of one test of a group, a new process group included."""
    card_seconds: float
    """Time for the figures of one unit."""
    group_seconds: float
    """Time for the figures of one group."""
    payload: Mapping[str, int]
    """Bytes of the large message, by backend."""
    storage_bytes: int
    """Bytes that each node writes and reads."""
    silence: float = 8.0
    """A rank that sends nothing for so long is lost."""
    grace: float = 3.0
    """What the coordinator waits beyond a limit for an agent that ends its worker there."""


MIB = 1 << 20


def _limits(*seconds: float) -> Mapping[Stage, float]:
    return dict(zip(Stage, seconds, strict=True))


BUDGETS = {
    "quick": Budget(
        mode="quick",
        limits=_limits(15.0, 30.0, 8.0, 6.0, 12.0, 6.0, 6.0, 15.0),
        whole=40.0,
        test_limit=5.0,
        card_seconds=1.5,
        group_seconds=0.6,
        payload={"nccl": 64 * MIB, "gloo": 4 * MIB},
        storage_bytes=16 * MIB,
    ),
    "standard": Budget(
        mode="standard",
        limits=_limits(60.0, 60.0, 20.0, 25.0, 45.0, 25.0, 20.0, 30.0),
        whole=180.0,
        test_limit=10.0,
        card_seconds=4.0,
        group_seconds=1.5,
        payload={"nccl": 512 * MIB, "gloo": 8 * MIB},
        storage_bytes=64 * MIB,
    ),
    "deep": Budget(
        mode="deep",
        limits=_limits(300.0, 120.0, 120.0, 120.0, 1200.0, 600.0, 120.0, 120.0),
        whole=2400.0,
        test_limit=40.0,
        card_seconds=20.0,
        group_seconds=5.0,
        payload={"nccl": 2048 * MIB, "gloo": 32 * MIB},
        storage_bytes=512 * MIB,
    ),
}
"""By mode."""


@frozen
class Wishes:
    """What the user asked for beside the mode."""

    storage: str = ""
    """Folder that every node shall write to and read from."""
    burn: float = 0.0
    """Seconds of load; 0 for none."""
    arrive: float | None = None
    """Seconds to wait for all ranks, where the mode's do not fit."""
    python: str = ""
    """Interpreter of the training, where it is another one."""
