"""Preflights for tests: what nodes, cards and links of a small cluster measured."""

from dataclasses import replace

from gpudoctor.model.signs.preflight import (
    Figure,
    LinkTest,
    Loss,
    LossKind,
    Preflight,
    PreflightNode,
    Quantity,
    Stage,
    StageRun,
    Unit,
)
from gpudoctor.testing import make_patient

H100 = "NVIDIA H100 80GB HBM3"
GB = 10**9


def node(index, **changes):
    given = {
        "name": f"node{index:02d}",
        "ranks": (index,),
        "facts": {"torch": "2.9.1", "cuda": "12.8", "driver": "580", "CPU quota": "none"},
    }
    return PreflightNode(index=index, **(given | changes))


def nodes(count=4):
    return tuple(node(index) for index in range(count))


def unit(on, local=0, *, device="cuda", name=H100, **changes):
    return Unit(node=on, local=local, device=device, name=name, **changes)


def figure(quantity, value, **changes):
    return Figure(quantity=quantity, value=value, **({"spread": 0.01, "repetitions": 10} | changes))


def bandwidth(value, payload=64 << 20):
    return figure(Quantity.BUS_BANDWIDTH, value, payload=payload)


def latency(value):
    return figure(Quantity.LATENCY, value, payload=8)


def ways(quantity, forward, backward, **changes):
    """A figure of each direction between two nodes."""
    return (
        figure(quantity, forward, direction="forward", **changes),
        figure(quantity, backward, direction="backward", **changes),
    )


def pair(a, b, speed=46 * GB, delay=12e-6, at=0, failure="", blamed=(), more=()):
    figures = () if failure else (bandwidth(speed), latency(delay), *more)
    return LinkTest(stage=Stage.PAIRS, round=at, nodes=(a, b), figures=figures, failure=failure, blamed=blamed)


def group(members, speed=44 * GB, at=0, failure=""):
    return LinkTest(
        stage=Stage.GROUP,
        round=at,
        nodes=tuple(members),
        figures=() if failure else (bandwidth(speed),),
        failure=failure,
    )


def every_pair(count, speed=lambda _a, _b: 46 * GB, delay=lambda _a, _b: 12e-6):
    """All pairs of a small cluster, a few rounds' worth."""
    return tuple(
        pair(a, b, speed(a, b), delay(a, b), at)
        for at, (a, b) in enumerate((a, b) for a in range(count) for b in range(a + 1, count))
    )


def preflight(count=4, **changes):
    given = {
        "mode": "standard",
        "backend": "nccl",
        "world": count,
        "nodes": nodes(count),
        "stages": tuple(StageRun(stage=stage, seconds=2.0, limit=20.0, ended=True) for stage in Stage),
        "seconds": 30.0,
    }
    return Preflight(**(given | changes))


def patient(count=4, **changes):
    return make_patient(preflight=preflight(count, **changes))


def loss(rank, kind=LossKind.DIED, stage=Stage.PAIRS, words="killed by signal 9", **changes):
    on = None if kind is LossKind.NEVER_CAME else rank
    return Loss(**({"rank": rank, "node": on, "stage": stage, "kind": kind, "words": words} | changes))


def with_facts(found, index, **facts):
    """The preflight with other facts on one node."""
    changed = [replace(item, facts={**item.facts, **facts}) if item.index == index else item for item in found.nodes]
    return replace(found, nodes=tuple(changed))
