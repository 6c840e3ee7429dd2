"""Rows of advice in TOML: their fields, their conditions, and what is loaded when."""

import subprocess
import sys
from dataclasses import dataclass

import pytest

from gpudoctor.model import Applicability, Code, Confidence, Detail, Effort, Finding, LogDetail, Measurement, Severity
from gpudoctor_rules import advice as module
from gpudoctor_rules.advice import advice


@dataclass(frozen=True, slots=True)
class FanDetail(Detail):
    fan: int = 0
    cause: Severity | None = None


def finding(detail):
    return Finding(
        code=Code("GPU013"), name="fan-stopped", severity=Severity.WARNING, confidence=Confidence.CONFIRMED,
        message="A fan.", evidence=(Measurement(name="fan", value=0, unit="1"),), detail=detail,
    )  # fmt: skip


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """The rows of a file with this text."""
    monkeypatch.setattr(module, "__file__", str(tmp_path / "advice.py"))

    def read(text):
        (tmp_path / "fans.toml").write_text("[[GPU013-fan]]\ntitle = 'turn fan {fan}'\nsteps = ['x']\n" + text)
        return advice.__wrapped__("fans")

    return read


@pytest.mark.parametrize(
    ("condition", "detail", "fits"),
    [
        ("", LogDetail("hot"), True),
        ("when = {fan = [3, 4]}", FanDetail(fan=5), False),
        ("when = {cause = 'note'}", FanDetail(cause=Severity.NOTE), True),
        ("when = {cause = ['', 'other']}", FanDetail(), True),
        ("when = {}", LogDetail("hot"), False),
        ("unless = {fan = -1}", FanDetail(fan=-1), False),
        ("unless = {fan = -1}", LogDetail("hot"), False),
        ("log = ['hot']", LogDetail("cold"), False),
        ("log = true", LogDetail("cold"), True),
        ("asks = ['hot']", LogDetail("hot", (("asks", "turn it"),)), True),
    ],
)
def test_a_row_answers_where_its_conditions_hold(condition, detail, fits, rows):
    [row] = rows(condition)
    assert (row.answer(finding(detail)) is not None) is fits


def test_a_row_has_the_fields_of_a_remedy(rows):
    [row] = rows("applicability = 'safe'\neffort = 'one line'\nsets = {fan = '3'}\n")
    remedy = row.answer(finding(FanDetail(fan=3)))
    assert (remedy.title, remedy.applicability, remedy.effort) == ("turn fan 3", Applicability.SAFE, Effort.ONE_LINE)
    assert remedy.sets == (("fan", "3"),)


def test_a_field_that_no_row_has_is_refused(rows):
    with pytest.raises(ValueError, match="GPU013-fan: unknown fields"):
        rows("whenn = {fan = 3}")


def test_no_topic_is_imported_before_a_finding_is_answered():
    code = (
        "import sys; from gpudoctor.engine.registry import load_registry; load_registry();"
        "print([name for name in sys.modules if name.startswith('gpudoctor_rules.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
