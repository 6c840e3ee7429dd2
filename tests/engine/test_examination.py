"""An examination as a whole, on toy checks: outcomes, silencing, prescriptions, exit codes."""

import ast

import pytest
from toys import Bad, Blind, Broken, Sick, Toy, Well, toy_registry

from gpudoctor.engine.examination import Request, examine
from gpudoctor.engine.exit_codes import exit_code, named_strictly
from gpudoctor.engine.registry import Registry
from gpudoctor.engine.selection import make_selection
from gpudoctor.engine.settings import Settings
from gpudoctor.model import (
    Applicability,
    Code,
    Crashed,
    Effort,
    Found,
    Passed,
    Patient,
    PatientKind,
    Remedy,
    Rule,
    Sign,
    Signs,
    Skipped,
    SourceSpan,
)
from gpudoctor.model.signs.source import Script, Source
from gpudoctor.testing import make_gpu, make_patient


def request(*checks, select=(), ignore=(), settings=None, rules=None):
    registry = toy_registry(*checks)
    registry = Registry(checks=registry.checks, rules=rules or {}, problems=registry.problems)
    selection = make_selection(registry, [(w, "--select") for w in select], [(w, "--ignore", "why") for w in ignore])
    return Request(registry=registry, selection=selection, settings=settings or Settings())


def test_the_four_outcomes_and_the_rest_goes_on():
    report = examine(make_patient(), request(Well, Sick, Blind, Broken))
    kinds = {item.code: type(item) for item in report.outcomes}
    assert kinds == {"DATA901": Passed, "MEM901": Found, "GPU901": Skipped, "OBS901": Crashed}
    crash = next(item for item in report.outcomes if isinstance(item, Crashed))
    assert crash.error.startswith("ZeroDivisionError: division by zero (toys.py:")
    assert (report.summary.warning, report.summary.passed, report.summary.skipped, report.summary.crashed) == (
        1,
        1,
        1,
        1,
    )


def test_a_crashing_reader_is_a_crash_of_the_checks_that_need_it_only():
    class NeedsHost(Toy):
        code, name = Code("ENV901"), "needs-host"

        def examine(self, patient):
            yield self.find(subject=str(patient.host))

    def boom():
        raise RuntimeError("bad /proc")

    patient = Patient(PatientKind.MACHINE, "m", Signs(host=Sign("the host", boom)))
    report = examine(patient, request(NeedsHost, Sick))
    (crash,) = [item for item in report.outcomes if isinstance(item, Crashed)]
    assert "the reader of the host failed: RuntimeError: bad /proc" in crash.error
    assert report.summary.warning == 1


@pytest.mark.parametrize("word", ["MEM901", "mem901", "MEM", "always-sick", "ALL"])
def test_ignored_findings_are_silenced_and_counted(word):
    report = examine(make_patient(), request(Well, Sick, ignore=[word]))
    assert report.findings == ()
    assert report.summary.silenced == 1
    assert report.silenced[0].reason == "why"
    assert {type(item) for item in report.outcomes} == {Passed}


def script_with(comments):
    text = "\n".join(["pass"] * 5)
    return Source(
        scripts=(
            Script(
                path="src/train.py", text=text, tree=ast.parse(text), lines=5, calls=(), loops=(), classes={},
                imports={}, arguments={}, entry=True, kinds={}, span=lambda _: None,
                ignored=comments, ignore_reasons=dict.fromkeys(comments, "measured"),
            ),
        )
    )  # fmt: skip


def test_a_comment_on_any_line_of_the_span_counts():
    class Long(Toy):
        code, name = Code("MEM903"), "long"

        def examine(self, patient):
            yield self.find(SourceSpan(path="src/train.py", line=2, end_line=4))

    report = examine(make_patient(source=script_with({4: ("*",)})), request(Long))
    assert report.summary.silenced == 1


def test_thresholds_reach_the_check():
    class Reads(Toy):
        code, name, thresholds = Code("DATA902"), "reads", Well.thresholds

        def examine(self, patient):
            yield self.find(subject=f"{self.limit('warning')}")

    settings = Settings(thresholds={Code("DATA902"): {"warning": 0.75}})
    report = examine(make_patient(), request(Reads, settings=settings))
    assert report.findings[0].finding.subject == "0.75"


class GoodRule(Rule):
    """Prescribes, then fails."""

    answers = Sick.code

    def prescribe(self, finding, patient):
        yield Remedy(id="MEM901-x", title="x", steps=("x",), applicability=Applicability.SAFE, effort=Effort.ONE_LINE)
        raise KeyError("host")


def test_a_failing_rule_keeps_what_it_gave_and_is_a_problem():
    report = examine(make_patient(), request(Sick, rules={Sick.code: (GoodRule,)}))
    assert [item.id for item in report.findings[0].remedies] == ["MEM901-x"]
    assert report.problems == ("the rule for MEM901 failed: KeyError: 'host'",)
    assert exit_code(report, "error", strict=False) == 3


@pytest.mark.parametrize(
    ("checks", "fail_on", "strict", "code"),
    [
        ((Well,), "error", False, 0),
        ((Sick,), "error", False, 0),
        ((Sick,), "warning", False, 1),
        ((Sick,), "never", False, 0),
        ((Bad,), "error", False, 1),
        ((Bad,), "never", False, 0),
        ((Broken,), "error", False, 3),
        ((Broken, Bad), "error", False, 1),
        ((Broken, Bad), "never", False, 3),
        ((Blind,), "error", False, 0),
        ((Blind,), "error", True, 3),
        ((Blind, Bad), "error", True, 1),
    ],
)
def test_exit_codes(checks, fail_on, strict, code):
    assert exit_code(examine(make_patient(), request(*checks)), fail_on, strict) == code


def test_strict_names_what_was_missing():
    report = examine(make_patient(), request(Blind, Well))
    assert named_strictly(report).problems == ("--strict: the GPUs were not examined",)
    assert exit_code(named_strictly(report), "error", strict=False) == 3
    whole = examine(make_patient(gpus=[make_gpu()]), request(Well, Blind))  # no target has what Blind reads
    assert named_strictly(whole) is whole
