"""Sick and healthy fleets for the checks that compare units with their peers and with references."""

from preflights import H100, figure, patient, unit

from gpudoctor.model import Confidence
from gpudoctor.testing import examine, prescribe
from gpudoctor_rules.advice import advice
from gpudoctor_rules.node import leave_out

SOME = "Somebody's card"


def fleet(quantity, usual, *shares, dtype="", device="cuda", name=H100, names=None):
    """A unit on each node that reaches its share of what is usual."""
    return patient(
        len(shares),
        units=tuple(
            unit(
                at, device=device, name=names[at] if names else name,
                figures=(figure(quantity, share * usual, dtype=dtype),),
            )
            for at, share in enumerate(shares)
        ),
    )  # fmt: skip


def assert_finds_the_slow_one(check, quantity, usual, **changes):
    found = fleet(quantity, usual, 1.0, 1.01, 0.99, 0.65, 1.0, 1.02, **changes)
    [finding] = examine(check, found)
    assert "node03" in finding.subject and "35 % slower" in finding.message
    assert finding.confidence is Confidence.CONFIRMED
    assert prescribe((leave_out, *advice("node")), finding, found)[0].title == "--exclude=node03"
    [finding] = examine(check, fleet(quantity, usual, 1.0, 0.6, 1.0, **(changes | {"name": SOME})))
    assert finding.confidence is Confidence.SUSPECTED


def assert_healthy_fleets_are_silent(check, quantity, usual, **changes):
    assert examine(check, fleet(quantity, usual, 1.0, 1.02, 0.98, 0.97, 1.01, 1.0, **changes)) == []
    names = [SOME] * 3 + ["Another card"] * 3
    assert examine(check, fleet(quantity, usual, 1.0, 1.0, 1.0, 0.4, 0.4, 0.4, names=names, **changes)) == []
    assert examine(check, fleet(quantity, usual, 1.0, 0.6, **(changes | {"name": SOME}))) == []
