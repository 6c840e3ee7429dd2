"""What each reporter promises beyond its schema."""

import dataclasses
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import jsonschema
import pytest
from sample_reports import full_report, healthy_report
from sarif_schema import check_sarif, report_schema, validate

from gpudoctor.cli import main
from gpudoctor.engine.exit_codes import exit_code as report_exit_code
from gpudoctor.model import (
    Applicability,
    Crashed,
    Effect,
    EffectOrigin,
    Effort,
    Measurement,
    Passed,
    Remedy,
    Severity,
    SourceSpan,
)
from gpudoctor.report import render
from gpudoctor.report.github import command
from gpudoctor.report.markdown import code, escape
from gpudoctor.report.nagios import exit_code
from gpudoctor.report.printable import printable
from gpudoctor.report.sarif import uri
from gpudoctor.report.units import effect_text, fix_title, is_code, threshold_text
from gpudoctor.text import duration, number, percent, quantity, size


def _sarif(report):
    document = json.loads(render(report, "sarif"))
    check_sarif(document)
    return document["runs"][0]


def test_the_schema_is_a_schema_and_holds_for_both_samples():
    jsonschema.Draft202012Validator.check_schema(report_schema())
    for report in (full_report(), healthy_report()):
        validate(json.loads(render(report, "json")), report_schema())


@pytest.mark.parametrize(
    "key", ["schema", "gpudoctor", "patient", "summary", "findings", "outcomes", "run", "problems"]
)
def test_the_schema_refuses_a_report_without_a_promised_key(key):
    document = json.loads(render(full_report(), "json"))
    del document[key]
    with pytest.raises(jsonschema.ValidationError):
        validate(document, report_schema())


def test_json_carries_the_promised_keys():
    document = json.loads(render(full_report(), "json"))
    finding = document["findings"][1]
    assert finding["code"] == "DATA001" and finding["rank"] == 2
    assert finding["cost"] == {"step_share": None, "host_share": None, "bytes": None, "breaks": None}
    assert finding["evidence"][0] == {
        "kind": "source", "path": "train.py", "line": 88, "column": 10, "end_line": None,
        "text": "loader = DataLoader(ds, batch_size=32, shuffle=True)",
    }  # fmt: skip
    assert finding["remedies"][0]["effect"] == {
        "quantity": "throughput", "low": 1.9, "high": 2.3, "unit": "x", "provenance": "bound",
    }  # fmt: skip
    outcomes = {item["code"]: (item["outcome"], item["reason"]) for item in document["outcomes"]}
    assert outcomes["GPU006"] == ("skipped", "no NVLink on this card")
    assert outcomes["ENV003"] == ("crashed", "KeyError: '12.9' (driver_too_old.py:41)")
    assert outcomes["ENV001"] == ("passed", None) and outcomes["DATA001"] == ("found", None)
    assert document["silenced"][0]["where"] == "comment in train.py:41"
    assert document["run"] is None


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


def test_sarif_points_at_lines_and_at_the_machine():
    results = {result["ruleId"]: result for result in _sarif(full_report())["results"]}
    place = results["DATA001"]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "train.py" and place["region"]["startLine"] == 88
    assert results["ENV006"]["locations"][0]["physicalLocation"]["region"] == {"startLine": 12}
    [machine] = results["GPU003"]["locations"]
    assert machine["logicalLocations"][0]["name"] == "GPU 5"
    assert machine["physicalLocation"]["artifactLocation"]["uri"] == "train.py"  # a service wants a file
    assert [results[key]["level"] for key in ("GPU003", "DATA001", "LOOP008")] == ["error", "warning", "note"]


def test_sarif_of_a_machine_has_no_file():
    full = full_report()
    report = dataclasses.replace(full, subject=healthy_report().subject, findings=full.findings[:1])
    [location] = _sarif(report)["results"][0]["locations"]
    assert "physicalLocation" not in location


def test_sarif_tells_how_the_examination_went():
    [invocation] = _sarif(full_report())["invocations"]
    assert invocation["executionSuccessful"] is False
    notes = {note.get("associatedRule", {}).get("id"): note for note in invocation["toolExecutionNotifications"]}
    assert notes["ENV003"]["level"] == "error" and notes["GPU006"]["level"] == "note"
    assert "PERF009" not in notes and "broken.py" in notes[None]["message"]["text"]
    assert _sarif(healthy_report())["invocations"][0]["executionSuccessful"] is True


def test_sarif_has_the_rules_of_what_was_found_and_no_others():
    report = full_report()
    driver = _sarif(report)["tool"]["driver"]
    found = {item.finding.code for item in (*report.findings, *report.silenced)}
    registered = {str(check.code) for check in report.checks}
    assert found and {rule["id"] for rule in driver["rules"]} == found & registered < registered
    assert _sarif(healthy_report())["tool"]["driver"]["rules"] == []


def test_sarif_of_a_real_script_takes_a_few_kb_a_finding(capsys):
    script = Path(__file__).parents[2] / "examples" / "train_crops.py"
    assert main(["check", str(script), "--format", "sarif"]) == 0
    text = capsys.readouterr().out
    [run] = json.loads(text)["runs"]
    assert len(run["results"]) >= 5
    skipped = len(run["invocations"][0]["toolExecutionNotifications"])
    assert skipped > 50
    assert len(text) < 4_000 + 150 * skipped + 8_000 * len(run["results"])
    assert all(rule["help"]["markdown"] for rule in run["tool"]["driver"]["rules"])


def test_sarif_suppresses_what_was_silenced():
    [silenced] = [result for result in _sarif(full_report())["results"] if "suppressions" in result]
    assert silenced["ruleId"] == "OBS001"
    assert silenced["suppressions"][0]["kind"] == "inSource"
    assert silenced["suppressions"][0]["justification"] == "measured on purpose"


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


@pytest.mark.parametrize(
    ("path", "reference"),
    [
        ("src/my train.py", "src/my%20train.py"),
        ("/data/job#1/train.py", "file:///data/job%231/train.py"),
        ("C:\\jobs\\train 1.py", "file:///C:/jobs/train%201.py"),
        ("\\\\server\\share\\x.py", "file://server/share/x.py"),
        ("sub\\train.py", "sub/train.py"),
        ("höhe.py", "h%C3%B6he.py"),
        ("a:b.py", "a%3Ab.py"),
    ],
)
def test_paths_become_uris(path, reference):
    assert uri(path) == reference


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


def test_junit_has_an_error_for_an_examination_that_is_incomplete():
    report = dataclasses.replace(healthy_report(), problems=("x.py: unreadable", "y.py: binary"))
    [error] = ET.fromstring(render(report, "junit")).iter("error")
    assert error.get("message") == "x.py: unreadable" and "y.py: binary" in error.text


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


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"error": 1, "warning": 3, "crashed": 1}, 2),
        ({"warning": 1}, 1),
        ({"warning": 1, "crashed": 1}, 1),
        ({"crashed": 1}, 3),
        ({"note": 4}, 0),
        ({}, 0),
    ],
)
def test_nagios_exit_codes(changes, code):
    healthy = healthy_report()
    report = dataclasses.replace(healthy, summary=dataclasses.replace(healthy.summary, **changes))
    assert exit_code(report) == code
    word = ("OK", "WARNING", "CRITICAL", "UNKNOWN")[code]
    assert render(report, "nagios").startswith(f"GPUDOCTOR {word} - This machine shows no known fault")


def test_nagios_is_unknown_when_a_target_could_not_be_read():
    assert exit_code(dataclasses.replace(healthy_report(), problems=("x.py: unreadable",))) == 3


def test_nagios_has_performance_data():
    line = render(full_report(), "nagios").splitlines()[0]
    assert line.endswith("| errors=1;;0;0 warnings=2;0;;0 notes=1;;;0 passed=2;;;0 skipped=1;;;0 crashed=1;;;0")


def test_a_passed_and_a_crashed_check_are_told_apart_in_each_machine_format():
    healthy = healthy_report()
    crash = tuple(
        Crashed(code=item.code, error="boom") if isinstance(item, Passed) else item for item in healthy.outcomes
    )
    report = dataclasses.replace(healthy, outcomes=crash)
    for format in ("json", "sarif", "junit", "github", "markdown", "nagios"):
        assert render(report, format) != render(healthy, format)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1 << 10, "1 KiB"), (64 << 20, "64 MiB"), (1536 << 20, "1.5 GiB"), (-(15 << 30), "-15 GiB"),
     (3 << 40, "3 TiB"), (float("nan"), "unknown")],
)  # fmt: skip
def test_bytes(count, text):
    assert size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (2.4e-5, "24 µs"), (0.0239, "23.9 ms"), (1.5, "1.5 s"), (90, "90 s"), (150, "2m30s"), (8040, "2h14m"),
     (7199.9, "2 h"), (3599.7, "1 h"), (86400, "24 h"), (float("inf"), "unknown")],
)  # fmt: skip
def test_seconds(seconds, text):
    assert duration(seconds) == text


def test_shares_and_numbers():
    assert [percent(share) for share in (0, 0.583, 0.032, 0.03, 1)] == ["0 %", "58 %", "3.2 %", "3 %", "100 %"]
    assert [number(value) for value in (1980, 0.25, 16.0, 1e-7)] == ["1,980", "0.25", "16", "1e-07"]
    assert quantity(90.0, "Cel") == "90 °C" and quantity(True, "") == "yes"
    assert [quantity(value, "step") for value in (0, 1, 50)] == ["0 steps", "1 step", "50 steps"]
    assert quantity(1, "{batches}") == "1 batch" and quantity(2e9, "B/s") == "2 GB/s"
    assert threshold_text(86400, "s") == "86400 (24 h)" and threshold_text(0.05, "1") == "0.05 (5 %)"
    assert quantity(1, "errors") == "1 error" and quantity(1980, "MHz") == "1,980 MHz"
    assert quantity(300.0, "W") == "300 W" and quantity("hopper", "") == "hopper"


@pytest.mark.parametrize(
    ("low", "high", "unit", "quantity", "text"),
    [
        (1.9, 2.3, "x", "throughput", "1.9x to 2.3x"),
        (1.0, 2.4, "x", "throughput", "up to 2.4x"),
        (1.08, 1.08, "x", "throughput", "1.08x"),
        (1.1, 1.2, "x", "start_time", "1.1x to 1.2x start time"),
        (-(9 << 30), -(8 << 30), "B", "memory", "-9 GiB to -8 GiB memory"),
    ],
)
def test_effects(low, high, unit, quantity, text):
    effect = Effect(quantity=quantity, low=low, high=high, unit=unit, provenance=EffectOrigin.BOUND)
    assert effect_text(effect) == text


@pytest.mark.parametrize(
    "step",
    ["pip install torch==2.6.0", "nvidia-smi -pm 1", "export NCCL_P2P_DISABLE=0", "OMP_NUM_THREADS=8 torchrun train.py",
     "DataLoader(ds, num_workers=6)", "import torch", "torch.backends.cudnn.benchmark = True", "docker run --shm-size=2g ..."],
)  # fmt: skip
def test_commands_are_told_from_sentences(step):
    assert is_code(step)


@pytest.mark.parametrize(
    "step", ["Reboot the node.", "Ask an administrator", "pip reads the file and installs it again.", "set it to 8"]
)
def test_sentences_are_told_from_commands(step):
    assert not is_code(step)


def test_printable_text():
    assert printable("a\x1b[31mb\x00c\r\nd\te\udce9 \u202e \u00a0ü日") == ("a\\x1b[31mb\\x00c\nd\te\\xe9 \\u202e  ü日")


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("drain the node", "Drain the node"),
        ("Keep one", "Keep one"),
        ("search what fits", "Search what fits"),
        ("num_workers=6, persistent_workers=True", "num_workers=6, persistent_workers=True"),
        ("export OMP_NUM_THREADS=4", "export OMP_NUM_THREADS=4"),
        ("model.eval()", "model.eval()"),
        ("torch.compile(model)", "torch.compile(model)"),
    ],
)
def test_a_fix_begins_with_a_capital_letter_unless_it_is_code(title, shown):
    remedy = Remedy(
        id="X001-a", title=title, steps=("do it",), applicability=Applicability.SAFE, effort=Effort.ONE_LINE
    )
    assert fix_title(remedy) == shown
