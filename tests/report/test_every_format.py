"""Any report renders in every format, and what claims to be parseable parses."""

import dataclasses
import json
import xml.etree.ElementTree as ET

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from report_strategies import reports
from sample_reports import full_report
from sarif_schema import check_sarif, report_schema, validate

from gpudoctor.report import FORMATS, render
from gpudoctor.report.saved import report_of
from gpudoctor.report.sharing import HiddenNames, shareable
from gpudoctor.ui.console.text_report import render_preflight, render_text


def told(document):
    """What a saved report has of it."""
    for item in document["findings"]:
        item["set_aside"] = []
    for item in document["outcomes"]:
        item["name"] = None  # of two with one code, any
    return {**document, "launch": []}


# Shrinking a whole report takes minutes; the nasty texts are readable as they are.
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(report=reports, width=st.sampled_from((1, 40, 80, 200)))
def test_any_report_in_every_format(report, width):
    """In one test: making a report takes longer than most formats."""
    document = json.loads(render(report, "json"))
    validate(document, report_schema())
    assert len(document["findings"]) == len(report.findings)
    assert len(document["outcomes"]) == len(report.outcomes)
    try:
        assert told(json.loads(render(report_of(document), "json"))) == told(document)
    except TypeError as error:  # a number that must be there and is not finite, which JSON has as null
        assert str(error).endswith(": None is not float")
    sarif = json.loads(render(report, "sarif"))
    check_sarif(sarif)
    assert len(sarif["runs"][0]["results"]) == len(report.findings) + len(report.silenced)
    junit = ET.fromstring(render(report, "junit"))
    assert len(junit.findall("./testsuite/testcase")) == len(report.outcomes) + bool(report.problems)
    lines = render(report, "github").splitlines()
    assert lines and all(line.startswith(("::error ", "::warning ", "::notice ")) for line in lines)
    assert len(render(report, "markdown")) < 65_536
    text = render(report, "nagios")
    assert text.count("|") == 1 and text.splitlines()[0].count("|") == 1
    for verbose in (False, True):
        text = render_text(report, width=width, colour=False, verbose=verbose)
        assert "\x1b" not in text and "\x00" not in text and "\u202e" not in text
        text.encode("utf-8")
    render_preflight(report, width=width)
    shared = shareable(report, HiddenNames(users=("alice",), hosts=("node-17",)))
    for format in FORMATS:
        render(shared, format)
    assert [item.code for item in shared.outcomes] == [item.code for item in report.outcomes]


@pytest.mark.parametrize("format", [*FORMATS, "text"])
def test_a_secret_in_any_text_is_masked_in_every_format(format):
    secret = "hf_" + "aB3dE6gH9jK2mN5pQ8rS1tU4vW7xY0zA"
    full = full_report()
    item = full.findings[1]
    finding = dataclasses.replace(item.finding, message=f"it downloads with {secret}")
    remedy = dataclasses.replace(item.remedies[0], steps=(f"export HF_TOKEN={secret}",))
    item = dataclasses.replace(item, finding=finding, remedies=(remedy,), reason=secret)
    report = dataclasses.replace(full, findings=(item,), problems=(f"HF_TOKEN={secret} is bad",))
    text = render_text(report, width=300, colour=False, verbose=True) if format == "text" else render(report, format)
    assert "downloads with" in text
    assert secret not in text and secret[3:20] not in text
