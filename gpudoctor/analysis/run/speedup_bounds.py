"""What a measured share of time can give back at most (Amdahl's law)."""

from collections.abc import Iterable

from gpudoctor.model.remedy import Effect, EffectOrigin


def speedup(share: float) -> float:
    """The factor by which a step gets faster when a share of it (0..1) is gone: 1 / (1 - share).

    A share of 1 would be infinite; it is held at 0.99, since something always remains.
    """
    return 1.0 / (1.0 - min(max(share, 0.0), 0.99))


def bound(share: float, least: float = 0.0) -> Effect:
    """The effect of giving back between `least` and the whole of a measured share of step time."""
    return Effect(
        quantity="throughput",
        low=round(speedup(min(least, share)), 3),
        high=round(speedup(share), 3),
        unit="x",
        provenance=EffectOrigin.BOUND,
    )


def together(shares: Iterable[float]) -> float:
    """The bound of several disjoint shares at once."""
    return speedup(min(sum(max(share, 0.0) for share in shares), 0.99))
