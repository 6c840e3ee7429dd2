"""The bisection of a leak, and proof by the ailment's absence, on benches without processes."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest
from recordings import make_process, make_recording, make_steps, record

import gpudoctor
from gpudoctor.analysis.source.retention import RetentionKind, keeping_at
from gpudoctor.model import (
    GROWTH,
    Applicability,
    BadStepDetail,
    Code,
    Confidence,
    Cost,
    Effort,
    Finding,
    Found,
    LeakDetail,
    Measurement,
    Passed,
    Ranked,
    Remedy,
    Severity,
    Skipped,
    SourceSpan,
    TextEdit,
    Trait,
)
from gpudoctor.model.proof import Conclusion
from gpudoctor.report.json_parts import trial_object
from gpudoctor.report.units import remedy_facts
from gpudoctor.testing import make_patient, prescribe
from gpudoctor.trial.cure import Cures, has_sign
from gpudoctor.trial.leaks import held, search
from gpudoctor.trial.session import TrialSession
from gpudoctor.trial.summary import summarise_trials
from gpudoctor.trial.trial_runner import TrialRun
from gpudoctor.trial.trial_verdict import verdict_words
from gpudoctor.trial.window import TrialWindow
from gpudoctor.vitals.source import read_source
from gpudoctor_rules.memory.advice import ADVICE
from gpudoctor_rules.memory.host_memory_leak import HostMemoryLeakRule

MIB, KIB = 1 << 20, 1 << 10
TEXT = """import torch
losses, seen, total = [], {}, 0.0
for step, x in enumerate(loader):
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
    losses.append(loss)
    seen[step] = loss.detach()
    total += loss
    kept = torch.cat([kept, x])
    print(loss)
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TEXT)
    return read_source([Path("train.py")])


def test_what_a_line_keeps_and_how_it_keeps_less(source):
    [script] = source.scripts
    found = {line: keeping_at(script, line) for line in range(1, 12)}
    assert {line: (item.target, item.how) for line, item in found.items() if item} == {
        7: ("losses", "list"), 8: ("seen", "entry"), 9: ("total", "sum"), 10: ("kept", "joined"),
    }  # fmt: skip
    written = [found[7].written(keep) for keep in (RetentionKind.DETACHED, RetentionKind.NUMBER)]
    assert written == ["loss.detach()", "loss.item()"]
    assert (found[8].written(RetentionKind.DETACHED), found[8].written(RetentionKind.NUMBER)) == (
        "",
        "loss.item()",
    )
    assert written_of("kept.append(y.detach().clone())", RetentionKind.DETACHED) == ""
    assert written_of("kept[name].append(out)", RetentionKind.DETACHED) == "out.detach()"
    [skipped], [last] = found[7].edits(RetentionKind.NOTHING), found[7].edits(RetentionKind.LAST)
    assert (skipped.expected, skipped.new_text) == ("losses.append(loss)", "pass")
    assert last.new_text == "\n    del losses[:-32]"
    assert found[9].edits(RetentionKind.LAST) == ()


def written_of(line: str, keep: RetentionKind) -> str:
    Path("line.py").write_text(line + "\n")
    [script] = read_source([Path("line.py")]).scripts
    return keeping_at(script, 1).written(keep)


def growing(per_step: float, n: int = 200, reached: bool = False, names: tuple[str, ...] = ()):
    """A recording whose resident memory grows by so many bytes a step."""
    told = [record("override", 1.0, name="leak", reached=True, names=list(names))] if reached else []
    return make_recording(
        make_process(make_steps(n, rss=lambda i: 300 * MIB + per_step * i), records=told), path="/lap"
    )


class FakeBench:
    """Its runs grow as `rate(arm)` says; a text is a run that failed."""

    def __init__(self, rate, names=()):
        self.names = names
        self.rate, self.seen, self.deadline, self.steps, self.skip = rate, [], float("inf"), 20, 1

    def look(self, arm, *, steps, seconds, machine=False):
        self.seen.append(arm)
        value = self.rate(arm)
        failed = isinstance(value, str)
        return TrialRun(
            finished=SimpleNamespace(failed=failed), window=None, problem=value if failed else "",
            recording=growing(0.0 if failed else value, reached=bool(arm.overrides), names=self.names),
        )  # fmt: skip


class TimedBench(FakeBench):
    """Its laps are all as fast; the change's losses are others where `moves`."""

    moves = False

    def lap(self, arm):
        more = 1.0 if self.moves and arm.name != "baseline" else 0.0
        found = TrialWindow(first=1, steps=20, seconds=1.0, samples=None, memory=None,
                       losses=dict.fromkeys(range(20), 2.0 + more))  # fmt: skip
        return TrialRun(finished=SimpleNamespace(), recording=None, window=found)


TRAITS = {
    "MEM001": frozenset({Trait.DEVICE_MEMORY_GROWS}),
    "MEM002": frozenset({Trait.HOST_MEMORY_GROWS}),
    "MEM003": GROWTH,
}


def leak(code: str = "MEM002", *lines: int, **fields) -> Ranked:
    spans = tuple(SourceSpan(path="train.py", line=line, text="") for line in lines)
    fields = {"detail": LeakDetail(), **fields}
    finding = Finding(
        code=Code(code), name="host-memory-leak", severity=Severity.WARNING, confidence=Confidence.CONFIRMED,
        message="The memory grew.", evidence=(*spans, Measurement(name="bytes_per_step", value=1, unit="B")),
        traits=TRAITS.get(code, frozenset()), **fields,
    )  # fmt: skip
    return Ranked(rank=1, finding=finding, remedies=(), set_aside=(), reason="")


def hunt(bench, source, *ranked, budget=900.0):
    patient = make_patient(source=source, recording=growing(300 * KIB))
    return search(bench, patient, ranked, seconds=5.0, budget=budget, doing=lambda what: None)


def text_of(arm) -> str:
    return next(iter(arm.sources.values()), "")


def test_the_guilty_line_and_the_least_change_of_it(source):
    def rate(arm):
        text = text_of(arm)
        guilty = "losses.append(loss)" in text or "losses.append(loss.detach())" in text
        return 290 * KIB if guilty else 400

    bench = FakeBench(rate)
    found, known = hunt(bench, source, leak("MEM002", 8), leak("MEM003", 7))
    assert (found.place.line, found.holder, found.keep, found.steps) == (7, "losses", "number", 200)
    assert [(item.change, item.outcome) for item in found.tries] == [
        ("without the lines that keep something", "gone"), ("without train.py:8", "as before"),
        ("without train.py:7", "gone"), ("loss.detach() at train.py:7", "as before"),
        ("loss.item() at train.py:7", "gone"),
    ]  # fmt: skip
    assert [cure.gone for cure in known.values()] == [False, True]
    assert found.words.startswith("losses (train.py:7) retains it: 300 KiB a step as it is, ")
    assert "290 KiB with loss.detach() at train.py:7, 400 B with loss.item() at train.py:7." in found.words
    finding = held(leak("MEM002", 8).finding, found)
    [number, bound] = prescribe((HostMemoryLeakRule, *ADVICE), finding, make_patient(source=source))
    assert (number.id, number.title, number.applicability) == (
        "MEM002-number", "keep loss.item() (train.py:7)", Applicability.UNSAFE)  # fmt: skip
    assert number.edits == list(known)[1] and "del losses[:-1000]" in bound.steps[0]
    assert text_of(bench.seen[-1]) == TEXT.replace("append(loss)", "append(loss.item())")


def test_what_no_line_explains_is_searched_for_in_general(source):
    found, known = hunt(
        FakeBench(lambda arm: 1.0 if "leak.collect" in arm.overrides else 300 * KIB), source, leak("MEM002", 7)
    )
    assert (found.holder, found.place, found.keep, known) == ("reference cycles", None, "", {})
    assert (
        found.words == "It is reference cycles: 300 KiB a step as it is, 1 B with gc.collect() every 10 steps."
    )
    [remedy] = prescribe(
        (HostMemoryLeakRule, *ADVICE), held(leak().finding, found), make_patient(source=source)
    )
    assert remedy.id == "MEM002-cycles"
    nothing, _ = hunt(FakeBench(lambda arm: 300 * KIB), source, leak("MEM002", 7))
    assert nothing.words == "The owner of the memory was not found: 5 changes left it at 300 KiB a step."
    failing, _ = hunt(FakeBench(lambda arm: "it ended with exit code 1: boom"), source, leak("MEM002", 7))
    assert {item.reason for item in failing.tries} == {"it ended with exit code 1: boom"}
    assert (
        hunt(
            FakeBench(lambda arm: 1.0),
            source,
            leak("NUM001"),
        )
        is None
    )
    late, _ = hunt(FakeBench(lambda arm: 1.0), source, leak("MEM002", 7), budget=1.0)
    assert late.tries == () and late.words == ""


def test_a_line_that_the_program_cannot_do_without_is_found_by_what_it_keeps_less_of(source):
    def rate(arm):
        text = text_of(arm)
        if "pass" in text:
            return "it ended with exit code 1: ZeroDivisionError: division by zero"
        return 300 if "losses.append(loss.detach())" in text else 300 * KIB

    found, known = hunt(FakeBench(rate), source, leak("MEM002", 7))
    assert (found.place.line, found.keep, found.holder) == (7, "detached", "losses")
    assert [cure.gone for cure in known.values()] == [True]
    # Nor is it blamed where keeping less changes nothing.
    vain, _ = hunt(
        FakeBench(lambda arm: "it died" if "pass" in text_of(arm) else 300 * KIB), source, leak("MEM002", 7)
    )
    assert (vain.place, vain.holder) == (None, "")


def test_two_lines_that_share_the_growth_each_hold_part_of_it(source):
    def rate(arm):
        return sum(
            (share if line in text_of(arm) or not arm.sources else 0)
            for line, share in (("losses.append(loss)", 180 * KIB), ("seen[step] = loss.detach()", 120 * KIB))
        )

    found, _ = hunt(FakeBench(rate), source, leak("MEM002", 7, 8))
    assert found.place.line == 7 and found.words.startswith("losses (train.py:7) holds part of it: ")


@pytest.mark.parametrize(
    ("names", "guilty", "holder", "runs"),
    [
        (("Meter.history",), "", "the container Meter.history", 1),
        (("steps", "bank"), "bank", "the container bank", 3),
        (("steps", "bank"), "none of them alone", "one of the containers steps, bank", 3),
        ((), "", "a container", 1),
    ],
)
def test_the_container_that_holds_it_is_named(source, names, guilty, holder, runs):
    def rate(arm):
        cleared = arm.overrides.get("leak.containers")
        return 400 if cleared == "" or (cleared and cleared == guilty) else 300 * KIB

    found, _ = hunt(FakeBench(rate, names), source, leak("MEM002"))
    assert (found.holder, len(found.tries)) == (holder, runs)
    assert found.words.startswith(f"It is {holder}: 300 KiB a step as it is, 400 B with ")


# -- cures


def report_of(**outcomes):
    made = []
    for code, how in outcomes.items():
        if how == "passed":
            made.append(Passed(code=Code(code)))
        elif how == "found":
            made.append(Found(code=Code(code), findings=(leak(code).finding,)))
        else:
            made.append(Skipped(code=Code(code), reason=how))
    return SimpleNamespace(outcomes=tuple(made))


def wrong(code="LOOP001", safe=Applicability.UNSAFE, **fields) -> Ranked:
    edit = TextEdit(path="train.py", line=6, column=5, end_line=6, end_column=21, expected="optimizer.step()",
                    new_text="optimizer.step()\n    optimizer.zero_grad()")  # fmt: skip
    remedy = Remedy(
        id=f"{code}-mend",
        title="mend it",
        steps=("so",),
        applicability=safe,
        effort=Effort.ONE_LINE,
        edits=(edit,),
    )
    item = leak(code, 6, **fields)
    return replace(item, finding=replace(item.finding, name="zero-grad-missing"), remedies=(remedy,))


def test_only_what_a_run_has_shown_and_is_not_about_speed_has_a_sign():
    assert has_sign(wrong())
    assert not has_sign(wrong(cost=Cost(step_share=0.2)))
    assert not has_sign(wrong("DATA001"))
    assert has_sign(wrong("CFG001", cost=Cost(breaks="the result is wrong")))
    suspected = replace(wrong().finding, confidence=Confidence.SUSPECTED)
    assert not has_sign(replace(wrong(), finding=suspected))


@pytest.mark.parametrize(
    ("outcomes", "gone", "words"),
    [
        ({"LOOP001": "passed", "NUM003": "passed"}, True, "not found any more in as many steps"),
        ({"LOOP001": "found", "NUM003": "passed"}, False, "found again, as before"),
        ({"LOOP001": "too few steps", "NUM003": "passed"}, None, "the re-run does not show it (too few steps)"),
    ],
)
def test_a_cure_is_the_absence_of_the_finding(source, outcomes, gone, words):
    asked = []

    def diagnose(folder, arm, codes):
        asked.append(codes)
        return report_of(**outcomes)

    ranked = [wrong(), wrong("NUM003")]
    cures = Cures(FakeBench(lambda arm: 0.0), diagnose, ranked, growing(0.0), 5.0)
    cure = cures.of(ranked[0], SimpleNamespace(overrides={}), float("inf"))
    assert (cure.gone, cure.words, asked) == (gone, words, [frozenset({"LOOP001", "NUM003"})])
    assert cure.also == (("NUM003",) if gone else ())


def test_a_leak_that_its_check_no_longer_finds_may_still_be_one():
    for after, gone in ((1.0, True), (150 * KIB, False)):
        cures = Cures(FakeBench(lambda arm, after=after: after), lambda *_: report_of(MEM002="passed"), [leak()],
                      growing(300 * KIB), 5.0)  # fmt: skip
        cure = cures.of(leak(), SimpleNamespace(overrides={}), float("inf"))
        assert cure.gone is gone and cure.words.startswith("grew 300 KiB a step, ")


def test_a_run_that_dies_is_no_cure_and_the_steps_follow_the_bad_one():
    cures = Cures(FakeBench(lambda arm: "it ended with exit code 1"), None, [leak()], growing(0.0), 5.0)
    assert cures.of(leak(), SimpleNamespace(overrides={}), float("inf")) == "it ended with exit code 1"
    assert cures.steps(leak()) == 200
    assert cures.steps(leak("NUM002", detail=BadStepDetail(step=12, suspected="rate"))) == 42


def tried(source, item: Ranked, outcome: str, *, loss_moves: bool = False):
    """A session that has tried the remedy of one finding."""
    bench = TimedBench(lambda arm: 0.0)
    bench.moves = loss_moves
    session = TrialSession(bench=bench, budget=600.0, unsafe=True)
    told = report_of(**{str(item.finding.code): outcome})
    session.cures = Cures(bench, lambda *_: told, [item], growing(0.0), 5.0)
    session.try_remedies([item])
    return session


def test_a_remedy_that_changes_what_is_learned_is_proven_by_its_cure(source):
    session = tried(source, wrong(), "passed", loss_moves=True)
    [attempt] = session.attempts
    assert attempt.tried.conclusion() is Conclusion.CURED
    assert [item.remedy.id for item in session.worth_keeping] == ["LOOP001-mend"]
    trial = summarise_trials(session)
    [row] = trial.rows
    assert (row.conclusion, row.reason, row.proof.loss) == (
        Conclusion.CURED,
        "not found any more in as many steps",
        "moved",
    )
    assert row.proof.pairs == 3  # one look at its speed is enough
    words = verdict_words(trial, "sick")
    assert words == "Cured: zero-grad-missing with mend it (not found any more in as many steps)."
    schema = json.loads((Path(gpudoctor.__file__).parent / "report" / "report-1.schema.json").read_text())
    jsonschema.validate(trial_object(trial), {**schema, **schema["$defs"]["trial"]})
    assert trial_object(trial)["rows"][0]["proof"]["cured"] is True


def test_a_safe_remedy_must_not_move_the_loss_and_one_in_vain_is_not_cured(source):
    moved = tried(source, wrong(safe=Applicability.SAFE), "passed", loss_moves=True)
    assert moved.attempts[0].tried.conclusion() is Conclusion.MOVED and not moved.worth_keeping
    vain = tried(source, wrong(), "found")
    assert vain.attempts[0].tried.conclusion() is Conclusion.NOT_CURED and not vain.worth_keeping
    trial = summarise_trials(vain)
    assert (trial.rows[0].proof.pairs, trial_object(trial)["rows"][0]["proof"]["ratio"]) == (0, None)
    assert "Nothing that was tried cures it" in verdict_words(trial, "sick.")


@pytest.mark.parametrize("outcome", ["found", "passed", "too few steps"])
def test_a_leaks_cure_that_moves_the_loss_is_not_proven_whatever_its_speed(source, outcome):
    item = wrong("MEM003")
    session = tried(source, item, outcome, loss_moves=True)
    [attempt] = session.attempts
    assert attempt.tried.conclusion() in (Conclusion.MOVED, Conclusion.NOT_CURED) and not session.worth_keeping
    assert "Proven" not in verdict_words(summarise_trials(session), "sick.")


def test_the_loss_moved_and_same_results_never_stand_together(source):
    item = wrong(safe=Applicability.SAFE)
    session = tried(source, item, "passed", loss_moves=True)
    report = SimpleNamespace(findings=(item,), summary=SimpleNamespace(verdict="sick"))
    [made] = proven_report_of(report, session)
    facts = remedy_facts(made.remedies[0])
    assert "risk: results may change" in facts and any("the loss moved" in fact for fact in facts)
    assert not made.reason.startswith("cured by") and not any("is gone" in fact for fact in facts)


def test_a_command_that_dies_has_its_cures_tried_without_pairs(source):
    item = wrong("LOOP001")
    session = tried(source, item, "passed")
    alone = TrialSession(bench=session.bench, budget=600.0, unsafe=True, cures=session.cures)
    alone.try_remedies([item], timed=False)
    [attempt] = alone.attempts
    assert attempt.tried.conclusion() is Conclusion.CURED and not attempt.tried.pairs


def test_another_findings_remedy_with_the_same_edit_has_the_proof_where_it_is_gone_too(source):
    first, second = wrong("LOOP001"), replace(wrong("NUM003"), rank=2)
    session = tried(source, first, "passed")
    session.attempts[0].tried.cure = replace(session.attempts[0].tried.cure, also=("NUM003",))
    summary = SimpleNamespace(verdict="sick")
    report = SimpleNamespace(findings=(first, second), summary=summary)
    made = proven_report_of(report, session)
    assert [item.remedies[0].proof.cure.gone for item in made] == [True, True]
    assert made[0].reason.startswith("cured by LOOP001-mend")


def proven_report_of(report, session):
    from gpudoctor.trial import trial_verdict as verdict

    marked = [verdict._marked(item, session.attempts) for item in report.findings]
    return [verdict._placed(item, place, None) for place, item in enumerate(marked, start=1)]
