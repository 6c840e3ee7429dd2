"""What each reporter promises beyond its schema."""

import dataclasses
import json
import xml.etree.ElementTree as ET

import pytest
from sample_reports import full_report, healthy_report
from sarif_schema import check_sarif

from gpudoctor.engine.exit_codes import exit_code as report_exit_code
from gpudoctor.model import Measurement, Severity, SourceSpan
from gpudoctor.report import render
from gpudoctor.report.github import command
from gpudoctor.report.markdown import code, escape
from gpudoctor.report.nagios import exit_code as nagios_code
from gpudoctor.report.printable import printable


def _sarif(report):
    document = json.loads(render(report, "sarif"))
    check_sarif(document)
    return document["runs"][0]


def test_json_has_null_for_what_is_no_number():
    full = full_report()
    item = full.findings[0]
    evidence = (
        Measurement(name="x", value=float("nan"), unit="1"),
        Measurement(name="y", value=float("inf"), unit="s"),
    )
    item = dataclasses.replace(item, finding=dataclasses.replace(item.finding, evidence=evidence))
    document = json.loads(render(dataclasses.replace(full, findings=(item,)), "json"))
    assert [one["value"] for one in document["findings"][0]["evidence"]] == [None, None]


def test_sarif_points_at_lines_and_for_the_machine_at_the_script():
    results = {result["ruleId"]: result for result in _sarif(full_report())["results"]}
    place = results["DATA001"]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "train.py" and place["region"]["startLine"] == 88
    assert results["ENV006"]["locations"][0]["physicalLocation"]["region"] == {"startLine": 12}
    [machine] = results["GPU003"]["locations"]
    assert machine["physicalLocation"]["artifactLocation"]["uri"] == "train.py"  # a service wants a file
    assert [results[key]["level"] for key in ("GPU003", "DATA001", "LOOP008")] == ["error", "warning", "note"]


def test_sarif_tells_how_the_examination_went():
    [invocation] = _sarif(full_report())["invocations"]
    assert invocation["executionSuccessful"] is False
    notes = {note.get("associatedRule", {}).get("id"): note for note in invocation["toolExecutionNotifications"]}
    assert notes["ENV003"]["level"] == "error" and notes["GPU006"]["level"] == "note"
    assert "PERF009" not in notes and "broken.py" in notes[None]["message"]["text"]
    assert _sarif(healthy_report())["invocations"][0]["executionSuccessful"] is True


def test_sarif_fingerprints_stay_when_lines_move_and_tell_two_places_apart():
    def prints(*lines):
        full = full_report()
        item = full.findings[1]
        items = [
            dataclasses.replace(
                item,
                finding=dataclasses.replace(
                    item.finding, evidence=(SourceSpan(path="train.py", line=line, text=text),)
                ),
            )
            for line, text in lines
        ]
        run = _sarif(dataclasses.replace(full, findings=tuple(items), silenced=()))
        return [result["partialFingerprints"]["gpudoctorFinding/v1"] for result in run["results"]]

    assert prints((88, "a = DataLoader(x)")) == prints((99, "a  =  DataLoader(x)"))
    assert prints((88, "a = DataLoader(x)")) != prints((88, "b = DataLoader(y)"))
    assert len(set(prints((1, "a"), (2, "a")))) == 2


def test_junit_has_the_four_outcomes():
    root = ET.fromstring(render(full_report(), "junit", "note"))
    cases = {case.get("name").split()[0]: case for case in root.iter("testcase")}
    assert cases["DATA001"].find("failure").get("message").startswith("The loader decodes")
    assert cases["ENV003"].find("error") is not None
    assert cases["GPU006"].find("skipped").get("message") == "no NVLink on this card"
    assert list(cases["ENV001"]) == []
    assert cases["OBS001"].find("failure") is None
    suite = root.find("testsuite")
    assert [suite.get(key) for key in ("tests", "failures", "errors", "skipped")] == ["10", "4", "2", "2"]


@pytest.mark.parametrize("fail_on", ["error", "warning", "note", "never"])
def test_junit_fails_where_the_exit_code_is_1(fail_on):
    report = dataclasses.replace(full_report(), problems=())
    failing = {
        str(item.finding.code)
        for item in report.findings
        if fail_on != "never" and item.finding.severity.rank >= Severity(fail_on).rank
    }
    root = ET.fromstring(render(report, "junit", fail_on))
    failed = {case.get("name").split()[0] for case in root.iter("testcase") if case.find("failure") is not None}
    assert failed == failing
    assert bool(failed) == (report_exit_code(report, fail_on, strict=False) == 1)
    told = {case.get("name").split()[0] for case in root.iter("testcase") if case.find("system-out") is not None}
    assert {str(item.finding.code) for item in report.findings} <= failed | told


def test_github_commands_are_escaped():
    assert command("error", "100%\nnext::x", {"title": "a: b, c"}) == "::error title=a%3A b%2C c::100%25%0Anext::x"
    lines = render(full_report(), "github").splitlines()
    assert lines[1].startswith("::warning file=train.py,line=88,col=10,title=DATA001 loader-bound::")
    assert lines[0].startswith("::error title=GPU003 memory-errors::")


def test_markdown_escapes_what_would_leave_its_cell():
    assert escape("a|b <img> @torch.no_grad #12 `x` *y*") == (
        "a\\|b \\<img\\> @&#8203;torch.no\\_grad \\#12 \\`x\\` \\*y\\*"
    )
    assert code("a `b` | c") == "``a `b` \\| c``"
    table = [line for line in render(full_report(), "markdown").splitlines() if line.startswith("|")]
    assert len(table) == 6 and all(line.replace("\\|", "").count("|") == 6 for line in table)


def test_markdown_counts_what_does_not_fit():
    full = full_report()
    item = full.findings[1]
    long = dataclasses.replace(item, finding=dataclasses.replace(item.finding, message="slow " * 2000))
    text = render(dataclasses.replace(full, findings=(long,) * 20), "markdown")
    assert len(text) < 65_536 and "more findings did not fit here" in text
    assert text.count("<details>") == text.count("</details>")


def test_nagios_has_performance_data_and_its_own_exit_codes():
    line = render(full_report(), "nagios").splitlines()[0]
    assert line.endswith("| errors=1;;0;0 warnings=2;0;;0 notes=1;;;0 passed=2;;;0 skipped=1;;;0 crashed=1;;;0")
    full, well = full_report(), healthy_report()
    for error, warning, crashed, wanted in ((1, 1, 1, 2), (1, 0, 0, 2), (0, 1, 1, 1), (0, 0, 1, 3), (0, 0, 0, 0)):
        summary = dataclasses.replace(well.summary, error=error, warning=warning, crashed=crashed)
        assert nagios_code(dataclasses.replace(well, summary=summary)) == wanted
    assert nagios_code(dataclasses.replace(well, problems=full.problems)) == 3


def test_printable_text():
    assert printable("a\x1b[31mb\x00c\r\nd\te\udce9 \u202e \u00a0ü日") == ("a\\x1b[31mb\\x00c\nd\te\\xe9 \\u202e  ü日")
