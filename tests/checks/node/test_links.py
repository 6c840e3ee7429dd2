"""Paths between nodes and between the cards of one."""

import pytest
from preflights import GB, H100, every_pair, figure, group, pair, patient, unit, ways

from gpudoctor.model import Severity, Unavailable
from gpudoctor.model.signs.preflight import LinkTest, Quantity, Stage
from gpudoctor.testing import examine, prescribe
from gpudoctor_checks.node.group_slow import GroupSlow
from gpudoctor_checks.node.latency_high import LatencyHigh
from gpudoctor_checks.node.network_slow import NetworkSlow
from gpudoctor_checks.node.packets_lost import PacketsLost
from gpudoctor_checks.node.peer_link_slow import PeerLinkSlow
from gpudoctor_rules.advice import advice
from gpudoctor_rules.node import leave_out


def pairs(speed=lambda a, b: 46 * GB, *more, count=6, **signs):
    return patient(count, tests=(*every_pair(count, speed), *more), **signs)


def slow_with(one, speed):
    return lambda a, b: speed * GB if one in (a, b) else 46 * GB


def delayed(delay):
    return patient(6, tests=every_pair(6, delay=delay))


def counted(share, *more, segments=100_000):
    """Every pair of a small cluster; `share(sender, receiver)` of the segments are sent again."""
    every = [(a, b) for a in range(6) for b in range(a + 1, 6)]
    tests = [
        pair(a, b, at=at, more=ways(Quantity.RETRANSMITTED, share(a, b), share(b, a), repetitions=segments))
        for at, (a, b) in enumerate(every)
    ]
    return patient(6, tests=(*tests, *more))


def whole(node, speed, failure=""):
    figures = () if failure else (figure(Quantity.BUS_BANDWIDTH, speed, payload=1 << 30, algorithm="ring"),)
    places = tuple((node, local) for local in range(8))
    return LinkTest(stage=Stage.NODE, round=0, nodes=(node,), units=places, figures=figures, failure=failure)


def copy(node, first, second, speed):
    figures = (figure(Quantity.PEER_BANDWIDTH, speed, payload=1 << 28),)
    return LinkTest(stage=Stage.NODE, round=1, nodes=(node,), units=((node, first), (node, second)), figures=figures)


def copies(speed):
    """Every pair of four cards on each of four nodes."""
    return inside(
        *(copy(at, one, two, speed(at, one, two)) for at in range(4) for one in range(4) for two in range(one + 1, 4)),
        nodes=4,
    )


def inside(*tests, nodes=None, name=H100):
    nodes = nodes or len(tests)
    units = tuple(unit(node, local, name=name) for node in range(nodes) for local in range(8))
    return patient(nodes, units=units, tests=tests)


FAILS = tuple(
    pair(*item.nodes, at=item.round, failure="timed out after 20 s") if 2 in item.nodes else item
    for item in every_pair(6)
)
MIXED = tuple(unit(at, name=name) for at, name in enumerate([H100] * 4 + ["NVIDIA A10G"] * 4))
LOSSES = ways(Quantity.RETRANSMITTED, 1e-5, 0.02, repetitions=100_000)
EIGHT, HALF = tuple(range(8)), (4, 5, 6, 7)
GROUPS = patient(8, tests=(
    *every_pair(8), group(EIGHT, 8 * GB), group(EIGHT, 8 * GB, 1), group((0, 1, 2, 3), 44 * GB, 2), group(HALF, 8 * GB, 2),
    group((0, 1, 4, 5), 44 * GB, 3), group((2, 3, 6, 7), 8 * GB, 3), group((0, 1, 2, 6), 8 * GB, 4), group((3, 4, 5, 7), 44 * GB, 4),
))  # fmt: skip
LATE = delayed(lambda a, b: 90e-6 if 5 in (a, b) else 12e-6)
E, W = Severity.ERROR, Severity.WARNING


@pytest.mark.parametrize(
    ("check", "found", "severity", "message", "remedies"),
    [
        (NetworkSlow, pairs(slow_with(3, 12)), W, "node03 reached 12 GB/s", "leave-out node"),
        (NetworkSlow, pairs(lambda a, b: 12 * GB if (a, b) == (1, 4) else 46 * GB, *(pair(1, 4, 12 * GB, at=20 + again) for again in range(3))), W, "The path between node01 and node04 reached 12 GB/s", "link"),
        (NetworkSlow, patient(6, tests=FAILS), E, "timed out after 20 s", "leave-out node"),
        (LatencyHigh, LATE, W, "A small message of node05 takes 90 µs, one of its peers 12 µs.", "leave-out look"),
        (PacketsLost, counted(lambda sender, _: 0.03 if sender == 2 else 1e-5), W, "the median test less than 0.1 %.", "leave-out look"),
        (PacketsLost, counted(lambda sender, to: 0.03 if to == 2 else 0.002 if sender == 2 else 1e-5), W, "TCP sent 3 % of its segments again", "leave-out look"),
        (PacketsLost, counted(lambda sender, to: 0.03 if 2 in (sender, to) else 1e-5), W, "node02", "leave-out look"),
        (PacketsLost, counted(lambda sender, to: 0.02 if (sender, to) == (4, 1) else 1e-5, *(pair(1, 4, at=20 + turn, more=LOSSES) for turn in range(3))), W, "between node01 and node04", "look"),
        (GroupSlow, GROUPS, W, "Their pairs are good", "leave-out fabric"),
        (PeerLinkSlow, inside(*(whole(node, 200 * GB if node == 2 else 360 * GB) for node in range(5)), name="Somebody's card"), W, "The all-reduce (ring) inside node02 reaches 200 GB/s", "leave-out look"),
        (PeerLinkSlow, copies(lambda *at: 90 * GB if at == (1, 0, 3) else 230 * GB), W, "copy from GPU 0 to GPU 3 of node01", "leave-out look"),
        (PeerLinkSlow, inside(whole(0, 0, failure="unhandled cuda error")), E, "unhandled cuda error", "leave-out look"),
    ],
)  # fmt: skip
def test_sick(check, found, severity, message, remedies):
    [finding] = examine(check, found)
    assert finding.severity is severity and message in finding.message
    ids = [item.id for item in prescribe((leave_out, *advice("node")), finding, found)]
    assert ids == [f"{finding.code}-{word}" for word in remedies.split()]


@pytest.mark.parametrize(
    ("check", "found"),
    [
        (NetworkSlow, pairs(lambda a, b: (46 + 0.4 * ((a * 7 + b * 3) % 5 - 2)) * GB)),
        (NetworkSlow, pairs(lambda a, b: 46 * GB, pair(0, 5, 40 * GB, at=30))),  # one late test
        (NetworkSlow, pairs(lambda a, b: 12 * GB if b > 3 else 46 * GB, count=8, units=MIXED)),  # slower cards
        (NetworkSlow, LATE),  # at full bandwidth
        (NetworkSlow, GROUPS),  # in groups only
        (LatencyHigh, delayed(lambda a, b: (12 + (a + 2 * b) % 3) * 1e-6)),
        (PacketsLost, counted(lambda *_: 5e-4)),
        (PacketsLost, counted(lambda sender, _: 0.02 if sender == 2 else 0.01)),  # the network loses everywhere
        (PacketsLost, counted(lambda sender, _: 0.02 if sender == 2 else 0.0, segments=100)),  # chance
        (GroupSlow, patient(8, tests=(*every_pair(8), group(EIGHT, 42 * GB)))),
        (PeerLinkSlow, inside(*(whole(node, (360 + node) * GB) for node in range(5)), name="Somebody's card")),
        (PeerLinkSlow, copies(lambda _, one, two: 230 * GB if two - one == 1 else 20 * GB)),  # by design
    ],
)
def test_healthy(check, found):
    assert examine(check, found) == []


@pytest.mark.parametrize(
    ("check", "found", "words"),
    [
        (PacketsLost, pairs(), "no TCP connection"),  # what RDMA carries is not counted
        (PeerLinkSlow, patient(2), "several cards"),
    ],
)
def test_what_was_not_tested_is_said(check, found, words):
    with pytest.raises(Unavailable, match=words):
        examine(check, found)
