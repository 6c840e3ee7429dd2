from looks import look_of
from recordings import lines, make_process, make_steps, site

from gpudoctor.model import Severity
from gpudoctor_checks.performance.unexplained_time import UnexplainedTime

look = look_of(UnexplainedTime)
HOT = ("other", "/job/train.py", 41, "penalty", 60)


def test_sick_without_a_sampler_the_share_is_told():
    [finding] = look(make_process(make_steps(200, other=0.002)))
    assert finding.severity is Severity.NOTE and finding.span is None
    assert "its line is unknown" in finding.message


def test_healthy_little_is_left():
    assert look(make_process(make_steps(200, other=0.001), records=[lines(HOT)])) == []


def test_healthy_time_that_a_hook_answers_for():
    log = site("logging", "Logger.info", 0.2, 200, path="/job/train.py", line=41)
    assert look(make_process(make_steps(200, other=0.008), records=[lines(HOT), log])) == []
