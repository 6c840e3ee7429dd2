"""Whole texts against snapshots. GPUDOCTOR_UPDATE_SNAPSHOTS=1 writes them anew: read the diff before committing it."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from sample_reports import full_report, healthy_report

from gpudoctor.engine.manual import read_page
from gpudoctor.model import Applicability, Check, Code, LogLine, Maturity, Reads, Severity, SourceSpan, Threshold
from gpudoctor.model.proof import Proof
from gpudoctor.model.remedy import ImportEdit
from gpudoctor.model.report import Named
from gpudoctor.report.excerpts import with_excerpts
from gpudoctor.report.units import diff_flags, proof_flags
from gpudoctor.ui.console.manual_page import render_listing, render_manual_page
from gpudoctor.ui.console.text_report import render_preflight, render_text
from gpudoctor.ui.encoding import fit_encoding

SNAPSHOTS = Path(__file__).parent / "__snapshots__"


class LeakyBucket(Check):
    """The bucket of the loader leaks `a*b` bytes on every step.

    What it finds:
        A bucket whose loop holds

            bucket = Bucket(holes=3)

        and at least one hole.
    Why it hurts:
        - water is lost
        - the floor
          gets wet
    How it knows:
        It looks.
    False alarms:
        None known.
    Remedies:
        Plug it.
    References:
        - https://example.org/a-very-long-address-that-does-not-fit-on-a-line-of-eighty-columns/at-all
    """

    code = Code("ACME001")
    name = "leaky-bucket"
    reads = frozenset({Reads.SOURCE, Reads.ENVIRONMENT})
    severity = Severity.ERROR
    maturity = Maturity.PREVIEW
    thresholds = (
        Threshold(name="holes", default=1024.0, unit="B", source="the bucket makers' table", meaning="More is a leak."),
    )
    no_rule = "nobody sells plugs"

    def examine(self, patient):
        yield from ()


PAGE = read_page(LeakyBucket)
TEXTS = {
    "full-80": lambda: render_text(full_report(), width=80, colour=False),
    "full-120": lambda: render_text(full_report(), width=120, colour=False),
    "verbose-80": lambda: render_text(full_report(), width=80, colour=False, verbose=True),
    "healthy-80": lambda: render_text(healthy_report(), width=80, colour=False),
    "preflight-80": lambda: render_preflight(full_report(), width=80),
    "preflight-healthy-80": lambda: render_preflight(healthy_report(), width=80),
    "manual-80": lambda: render_manual_page(PAGE, width=80),
    "listing-80": lambda: render_listing([PAGE], width=80),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_is_as_it_was(name):
    path = SNAPSHOTS / f"{name}.txt"
    text = TEXTS[name]()
    if os.environ.get("GPUDOCTOR_UPDATE_SNAPSHOTS"):
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")
    assert text == TEXTS[name]()


def test_the_first_evidence_is_wrapped_and_loses_nothing():
    symbol = "_ZN3c104cuda14ExchangeDeviceEa" + "N2at6TensorE" * 8
    text = f"ImportError: /opt/lib/kernels.so: it needs {symbol} of a newer library, see the end of the page"
    report = full_report()
    finding = replace(report.findings[0].finding, evidence=(LogLine(origin="job.out", line=12345, text=text),))
    shown = replace(report, findings=(replace(report.findings[0], finding=finding),))
    lines = render_text(shown, width=60, colour=False).splitlines()
    [first] = [place for place, line in enumerate(lines) if "job.out:12345" in line]
    said = " ".join(line.strip() for line in lines[first : first + 6])
    assert text in said


@pytest.mark.parametrize(
    ("applicability", "patch", "shown"),
    [
        (Applicability.SAFE, "--- a", "train.yaml --diff\n"),
        (Applicability.UNSAFE, "--- a", "train.yaml --diff --unsafe\n"),
        (Applicability.DISPLAY_ONLY, "--- a", ""),
        (Applicability.SAFE, None, ""),
    ],
)
def test_the_diff_is_offered_only_where_it_prints_one(applicability, patch, shown):
    report = full_report()
    [item] = [item for item in report.findings if item.finding.code == "DATA001"]
    remedy = replace(item.remedies[0], applicability=applicability, patch=patch)
    report = replace(report, findings=(replace(item, remedies=(remedy,)),))
    text = render_text(report, width=80, colour=False)
    assert f"{shown}" in text if shown else "fix it" not in text


def test_verify_is_offered_with_unsafe_where_an_edit_of_what_is_trained_can_be_tried():
    report = full_report()
    [item] = [item for item in report.findings if item.finding.code == "DATA001"]
    remedy = replace(item.remedies[0], override=(("DataLoader.num_workers", 2),), edits=())
    edited = replace(remedy, override=(), edits=(ImportEdit(path="a.py", statement="import copy"),))
    trained = replace(item, finding=replace(item.finding, code=Code("TRAIN008")), remedies=(edited,))
    report = replace(report, checks=(Named(code=Code("TRAIN008"), name="s", title="s", in_runs=True),))
    for findings, flags in (((item, trained), " --unsafe"), ((replace(item, remedies=(remedy,)),), ""), ((), None)):
        assert proof_flags(replace(report, findings=findings)) == flags
    assert diff_flags(replace(report, findings=(replace(item, remedies=(replace(edited, patch="---"),)),))) != ""
    assert diff_flags(replace(report, findings=(replace(trained, remedies=(replace(edited, patch="---"),)),))) == ""


def test_a_remedy_whose_loss_moved_is_not_called_safe():
    report = full_report()
    [item] = [item for item in report.findings if item.finding.code == "DATA001"]
    proof = Proof(ratio=1.5, low=1.4, high=1.6, pairs=5, verdict="faster", loss="moved")
    safe = replace(item.remedies[0], applicability=Applicability.SAFE, proof=proof)
    text = render_text(replace(report, findings=(replace(item, remedies=(safe,)),)), width=120, colour=False)
    assert "the loss moved" in text and "same results" not in text and "results may change" in text


def test_colour_repeats_the_severity_and_weighs_the_parts():
    plain = render_text(full_report(), width=80, colour=False)
    coloured = render_text(full_report(), width=80, colour=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    painted = re.findall(r"\x1b\[([1-9][0-9;]*)m(.*?)\x1b\[0m", coloured)
    severities = {"GPU003", "DATA001", "ENV006", "LOOP008", "error", "warning", "note"}
    assert {words for style, words in painted if style not in "12"} == severities
    assert {words.split()[0] for style, words in painted if style == "2"} == {"-->"}
    assert {words.split()[0] for style, words in painted if style == "1"} == {"train.py", "fix:", "gpudoctor"}


def test_carets_stand_below_the_name_of_the_call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text("if True:\n    loader = data.DataLoader(ds)\n")
    span = SourceSpan(path="a.py", line=2, column=14, end_line=2, text="loader = data.DataLoader(ds)")
    item = full_report().findings[1]
    item = replace(item, finding=replace(item.finding, evidence=(span,)))
    report = with_excerpts(replace(full_report(), findings=(item,)))
    for width in (80, 34):
        text = render_text(report, width=width, colour=False)
        _, above, carets = re.search(r"(.*\n)?(.*)\n( +\^+)\n", text).groups()
        assert above[carets.index("^") : len(carets)] == "data.DataLoader"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "ANSI_X3.4-1968", "no-such-codec", None])
def test_a_poor_encoding_gets_other_characters_and_no_crash(encoding):
    text = fit_encoding("gpudoctor · 3 µs · 日本 \udce9 …\n", encoding)
    text.encode("ascii" if encoding in (None, "no-such-codec") else encoding)
    assert text.startswith("gpudoctor ")


def test_what_belongs_to_a_finding_is_one_card_with_it():
    report = full_report()
    first, second, *_ = report.findings
    part = replace(second, finding=replace(second.finding, effect_of=first.finding.code), remedies=())
    text = render_text(replace(report, findings=(first, part)), width=100, colour=False)
    head, below = text.split(f"{part.rank}  {part.finding.code} ")
    assert not head.endswith("\n\n") and "fix:" not in below and "-->" not in below
    whole = render_text(replace(report, findings=(first, second)), width=100, colour=False)
    assert f"\n\n{second.rank}  {second.finding.code} " in whole
