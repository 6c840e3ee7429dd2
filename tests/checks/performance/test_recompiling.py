import pytest
from looks import look_of, remedies_of
from recordings import make_process, make_steps, record

from gpudoctor.model import Severity, Unavailable
from gpudoctor_checks.performance.recompiling import Recompiling
from gpudoctor_rules.advice import advice

look = look_of(Recompiling)
remedies = remedies_of(advice("performance"))


def compiles(*steps, seconds=0.2, reason="tensor 'x' size mismatch at index 0"):
    return [record("compile", 2.0 + step, step=step, kind="recompile" if step else "compile", seconds=seconds,
                   reason=reason, path="/job/net.py", line=12) for step in steps]  # fmt: skip


def test_sick_a_shape_that_changes():
    [finding] = look(make_process(records=compiles(0, 60, 90, 120, 150)))
    assert finding.severity is Severity.WARNING and "size mismatch" in finding.message
    assert (finding.span.path, finding.span.line) == ("net.py", 12)
    assert "mark_dynamic" in remedies(finding)


def test_sick_an_attribute_is_named_without_its_stack():
    reason = "0/1: self.mode == 'x49'      # return y if self.mode == 'x49'  # net.py:9\nUser stack trace:\n  File"
    [finding] = look(make_process(records=compiles(0, 60, 90, 120, 150, reason=reason)))
    assert finding.message.endswith(": self.mode == 'x49'.")


def test_sick_what_costs_little_is_a_note():
    [finding] = look(make_process(make_steps(2000), records=compiles(0, 600, 900, 1200, seconds=0.01)))
    assert finding.severity is Severity.NOTE


def test_sick_one_guard_that_fails_until_the_limit():
    [finding] = look(make_process(records=compiles(*range(8))))
    assert finding.severity is Severity.WARNING and "7 compilations by one guard took" in finding.message


def test_healthy_compiling():
    assert look(make_process(records=compiles(0, 1, 2, 20))) == []
    assert look(make_process(records=compiles(0, 100))) == []
    with pytest.raises(Unavailable, match="nothing was compiled"):
        look(make_process())
