"""A remedy of something else than speed is proven by its ailment's absence, in a run that could show it."""

from types import SimpleNamespace

import pytest
from recordings import make_process, make_recording, make_steps

from gpudoctor.model import BadStepDetail, Code, Confidence, Finding, Found, Measurement, Passed, Ranked, Severity
from gpudoctor.model.signs.recording import RunEnd
from gpudoctor.trial.cure import Cures
from gpudoctor.trial.trial_runner import Arm, TrialRun

ARM = Arm(name="mended")


def item(code: str, **fields) -> Ranked:
    finding = Finding(
        code=Code(code), name="the-ailment", severity=Severity.WARNING, confidence=Confidence.CONFIRMED,
        message="", evidence=(Measurement(name="x", value=1, unit="B"),), **fields,
    )  # fmt: skip
    return Ranked(rank=1, finding=finding, remedies=(), set_aside=(), reason="")


def run_of(steps: int, died: bool = False):
    process = make_process(make_steps(steps))
    return make_recording(process, path="/lap", end=RunEnd(exit_code=int(died), seconds=9.0))


class OneRun:
    """A bench whose re-run came out so."""

    def __init__(self, recording, problem: str = "", failed: bool = False):
        self.lap = TrialRun(finished=SimpleNamespace(failed=failed), window=None, problem=problem, recording=recording)
        self.asked = None

    def look(self, arm, *, steps, seconds, machine=False):
        self.asked = (arm, steps, seconds)
        return self.lap


def cured(code: str, outcome, bench: OneRun, before=None, **fields):
    """The cure of a finding whose check says so of the re-run."""
    report = SimpleNamespace(outcomes=(outcome,) if outcome else ())
    cures = Cures(bench, lambda *_: report, [item(code, **fields)], before or run_of(200), 5.0)
    return cures.of(item(code, **fields), ARM, float("inf"))


def passed(code: str) -> Passed:
    return Passed(code=Code(code))


def test_proven_where_its_check_finds_it_no_more_in_as_many_steps():
    bench = OneRun(run_of(200))
    cure = cured("NUM003", passed("NUM003"), bench)
    assert (cure.gone, cure.steps, cure.words) == (True, 200, "not found any more in as many steps")
    assert bench.asked[:2] == (ARM, 200)


def test_not_proven_where_the_sign_stays():
    stays = Found(code=Code("NUM003"), findings=(item("NUM003").finding,))
    cure = cured("NUM003", stays, OneRun(run_of(200)))
    assert (cure.gone, cure.words) == (False, "found again, as before")


@pytest.mark.parametrize(
    ("steps", "problem", "words"),
    [
        (0, "no end within 1 s", "the re-run does not show it (0 of 200 steps: no end within 1 s)"),
        (99, "", "the re-run does not show it (it made 99 of 200 steps)"),
    ],
)
def test_a_run_that_shows_nothing_proves_nothing(steps, problem, words):
    """Its check finds nothing either way: there was nothing to look at."""
    cure = cured("LOOP001", passed("LOOP001"), OneRun(run_of(steps), problem))
    assert (cure.gone, cure.words) == (None, words)


def test_a_bad_step_must_be_passed_and_a_run_cut_before_it_proves_nothing():
    facts = {"detail": BadStepDetail(step=120, suspected="rate")}
    reached = OneRun(run_of(151))
    assert cured("NUM002", passed("NUM002"), reached, **facts).gone is True
    assert reached.asked[1] == 150
    cut = cured("NUM002", passed("NUM002"), OneRun(run_of(140), "no end within 9 s"), **facts)
    assert cut.gone is None


def test_of_a_death_the_command_must_come_past_the_step_where_it_died():
    dead = run_of(50, died=True)
    past = OneRun(run_of(80))
    cure = cured("FAIL001", passed("FAIL001"), past, dead)
    assert (cure.gone, cure.words) == (True, "the command gets past the step where it died")
    assert past.asked[1] == 80
    again = cured("FAIL001", passed("FAIL001"), OneRun(run_of(50), "it ended with exit code 1", True), dead)
    assert (again.gone, again.words) == (False, "the command dies as before")
    cut = cured("FAIL001", passed("FAIL001"), OneRun(run_of(40), "no end within 9 s"), dead)
    assert cut.gone is None


def test_a_re_run_that_dies_where_the_baseline_did_not_is_a_failure_and_no_cure():
    bench = OneRun(run_of(200), "it ended with exit code 1: KeyError: 'x'", True)
    assert cured("LOOP001", passed("LOOP001"), bench) == "it ended with exit code 1: KeyError: 'x'"
