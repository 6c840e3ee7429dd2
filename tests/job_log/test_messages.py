"""Every wording of every check is found, named first, and explained in a whole sentence."""

import re

import pytest
from log_cases import STEPS, found_in_log
from log_causes import cause_of
from log_samples import SAMPLES

from gpudoctor.engine.registry import load_registry
from gpudoctor.model.log_message import LibraryWarning, LogDetail
from gpudoctor.testing import make_patient

REGISTRY = load_registry()
MESSAGES = tuple(REGISTRY.log_messages())


def test_every_wording_has_a_sample():
    named = {(code, item.kind) for code, item in MESSAGES if not isinstance(item, LibraryWarning)}
    assert named == set(SAMPLES)


def test_each_wording_is_the_first_cause(tmp_path):
    for (code, kind), sample in SAMPLES.items():
        [finding] = found_in_log(code, tmp_path, sample + "\n")
        # A line of the driver alone is a kernel log, which the check judges by the number of its Xid.
        assert not isinstance(finding.detail, LogDetail) or finding.detail.kind == kind
        assert isinstance(finding.detail, LogDetail) or code == "GPU004"
        assert not re.search(r"\{\w+\}", finding.message) and finding.message[0] != "[", kind
        assert finding.message.rstrip().endswith("."), kind
        assert 1 <= finding.evidence[0].line <= 1 + sample.count("\n"), kind


def test_a_failure_after_which_the_training_goes_on_is_no_finding():
    before = "step 99 loss 2.0 lr 1e-4\n"
    told = [kind for (_, kind), sample in SAMPLES.items() if cause_of(f"{before}{sample}\n{STEPS}")]
    assert told == []


@pytest.mark.parametrize("code", sorted({code for code, _ in MESSAGES}))
def test_a_remedy_answers_every_wording(code):
    for message in REGISTRY.checks[code].all_log_messages():
        finding = _finding(code, message.kind)
        rules = [rule for rule in REGISTRY.rules.get(code, ()) if rule.reads_logs]
        assert any(list(rule().prescribe(finding, make_patient())) for rule in rules), message.kind


def _finding(code, kind):
    from gpudoctor.model import Confidence, LogDetail, LogLine

    check = REGISTRY.checks[code]()
    return check.finding(
        "x.", evidence=(LogLine(origin="a", text="b"),), confidence=Confidence.CONFIRMED, detail=LogDetail(kind)
    )
