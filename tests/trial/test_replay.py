"""From what a replay saw first to the class of cause, the words and the finding."""

import pytest

from gpudoctor.model import BadStepDetail, Code, Confidence, Finding, Measurement, Severity, SourceSpan
from gpudoctor.model.proof import Cause, Replay
from gpudoctor.trial.replay import cause_of, explained

LOG = {
    "kind": "operation", "operation": "log", "operator": "aten.log.default", "value": "inf", "phase": "forward",
    "dtype": "float32", "path": "/job/train.py", "line": 41, "text": "loss = p.log().mean()",
}  # fmt: skip


@pytest.mark.parametrize(
    ("origin", "growth", "cause"),
    [
        ({}, False, Cause.DOMAIN),
        ({}, True, Cause.EXPLODING),
        ({"operation": "mm", "dtype": "float16"}, False, Cause.HALF_OVERFLOW),
        ({"phase": "optimizer"}, False, Cause.OPTIMIZER),
        ({"kind": "data"}, True, Cause.BAD_INPUT),
        ({"kind": "weights", "name": "head.weight"}, True, Cause.POISONED),
    ],
)
def test_classes(origin, growth, cause):
    assert cause_of({**LOG, **origin}, growth) is cause


def finding():
    return Finding(
        code=Code("NUM002"), name="nan-loss", severity=Severity.ERROR, confidence=Confidence.CONFIRMED,
        message="The loss of step 12 is NaN; more.", detail=BadStepDetail(step=12, suspected="operation"),
        evidence=(SourceSpan(path="train.py", line=9, text="loss.backward()"), Measurement(name="step", value=12, unit="")),
    )  # fmt: skip


def test_a_finding_shows_what_the_replay_saw():
    place = SourceSpan(path="train.py", line=41, text="loss = p.log().mean()")
    shown = Replay(
        code="NUM002", step=12, reproduced=True, cause=Cause.DOMAIN, words="W.", operator="aten.log", place=place
    )
    told = explained(finding(), shown)
    assert told.message == "The loss of step 12 is NaN. W."
    assert told.evidence[0] == place and "aten.log" in [getattr(item, "value", "") for item in told.evidence]
    assert told.detail_of(BadStepDetail).cause == "domain"
    nothing = explained(finding(), Replay(code="NUM002", step=12, reproduced=False, reason="it was finite"))
    assert nothing.message.endswith("A replay shows no more: it was finite.")
