"""Every wording of every check is found, named first, and explained in a whole sentence."""

import re
from pathlib import Path

import pytest
from log_cases import found_in_log
from log_samples import SAMPLES

from gpudoctor.analysis.job_log.first_cause import first_cause
from gpudoctor.engine.registry import load_registry
from gpudoctor.model.log_message import Bearing, LibraryWarning, LogDetail
from gpudoctor.testing import make_patient
from gpudoctor.vitals.job_log import read_job_log

REGISTRY = load_registry()
MESSAGES = tuple(REGISTRY.log_messages())


def read(tmp_path: Path, text: str):
    path = tmp_path / "job.out"
    path.write_text(text, encoding="utf-8")
    return read_job_log([str(path)], MESSAGES)


def test_every_wording_has_a_sample():
    named = {(code, item.kind) for code, item in MESSAGES if not isinstance(item, LibraryWarning)}
    assert named == set(SAMPLES)


@pytest.mark.parametrize(("code", "kind"), sorted(SAMPLES))
def test_the_wording_is_the_first_cause(tmp_path, code, kind):
    [finding] = found_in_log(code, tmp_path, SAMPLES[code, kind] + "\n")
    # A line of the driver alone is a kernel log, which the check judges by the number of its Xid.
    assert not isinstance(finding.detail, LogDetail) or finding.detail.kind == kind
    assert isinstance(finding.detail, LogDetail) or code == "GPU004"
    assert not re.search(r"\{\w+\}", finding.message) and finding.message[0] != "["
    assert finding.message.rstrip().endswith(".")
    assert 1 <= finding.evidence[0].line <= 1 + SAMPLES[code, kind].count("\n")


@pytest.mark.parametrize(("code", "kind"), sorted(SAMPLES))
def test_a_failure_after_which_the_training_goes_on_is_no_finding(tmp_path, code, kind):
    steps = "".join(f"step {number} loss 0.{number} lr 1e-4\n" for number in range(100, 120))
    before = "step 99 loss 2.0 lr 1e-4\n"
    assert first_cause(read(tmp_path, before + SAMPLES[code, kind] + "\n" + steps)) is None


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


def test_hints_say_what_they_explain():
    for code, item in MESSAGES:
        assert (item.bearing is Bearing.HINT) == bool(item.explains), (code, item.kind)
