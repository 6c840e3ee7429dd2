"""Rows of a table: their conditions, their texts, the rules that they make."""

from dataclasses import dataclass

from gpudoctor.model import (
    Applicability,
    Code,
    Confidence,
    Detail,
    Effort,
    Finding,
    Measurement,
    Severity,
    advise,
    answers,
    rules_of,
    where,
)
from gpudoctor.testing import make_patient, prescribe


@dataclass(frozen=True, slots=True)
class FanDetail(Detail):
    fan: int
    stopped: bool | None = None
    room: str | None = None


def finding(detail=None, code="GPU013"):
    return Finding(
        code=Code(code),
        name="fan-stopped",
        severity=Severity.WARNING,
        confidence=Confidence.CONFIRMED,
        message="A fan.",
        evidence=(Measurement(name="fan", value=0, unit="1"),),
        detail=detail,
    )


ROWS = (
    advise(
        "GPU013-fan",
        "look at fan {fan}",
        "fan {fan}: turn it; {'a': 1} and {other} stay",
        when=where(FanDetail, lambda fan: fan.stopped),
        effort=Effort.COMMAND,
    ),
    advise("GPU013-room", "cool the room", "open a window", applicability=Applicability.SAFE),
    advise("GPU014-card", "replace the card", "take it out"),
)


def test_a_text_takes_the_details_values_and_keeps_other_braces():
    [fan, _] = prescribe(ROWS, finding(FanDetail(fan=3, stopped=True)), make_patient())
    assert fan.steps == ("fan 3: turn it; {'a': 1} and {other} stay",)


def test_a_table_makes_a_rule_for_each_code():
    fan, card = rules_of(ROWS, "some.advice")
    assert (fan.answers, card.answers, fan.__module__) == ("GPU013", "GPU014", "some.advice")
    assert [item.id for item in card().prescribe(finding(code="GPU014"), make_patient())] == ["GPU014-card"]


def test_a_marked_function_makes_a_rule_for_each_code_before_the_rows():
    @answers("GPU013", "GPU014")
    def cool(finding):
        yield ROWS[1].remedy

    made = rules_of([ROWS[1], cool], "some.module")
    assert [(rule.answers, rule.reads_logs) for rule in made] == [("GPU013", 0), ("GPU014", 0), ("GPU013", 1)]
    assert prescribe(cool, finding(code="GPU014"), make_patient()) == [ROWS[1].remedy]
