"""A check on a recording, and what its rules say to the finding; `examine` as the tests of checks have made it."""

from recordings import make_process, make_recording, make_steps, record

from gpudoctor import testing
from gpudoctor.engine.registry import load_registry
from gpudoctor.model.signs.recording import RunEnd
from gpudoctor.testing import make_patient, prescribe

RULES = load_registry().rules
FRAMES = [["/job/train.py", 41, "train", "out = model(x)"], ["/env/lib/python3.11/site-packages/t.py", 9, "f", ""]]
FAILED = RunEnd(exit_code=1, seconds=9.0)


def look(check, *ranks, **changes):
    """A check's findings on a recording of some ranks."""
    return testing.examine(check, make_patient(recording=make_recording(*ranks, **changes)))


def remedies(finding):
    """Titles and steps of the remedies for a finding, in one text."""
    patient = make_patient(recording=make_recording())
    found = [item for rule in RULES[finding.code] for item in prescribe(rule, finding, patient)]
    assert found
    return " ".join([item.title for item in found] + [step for item in found for step in item.steps])


def died(kind, message, t=5.0, user=0, rank=0, world=1, **fields):
    """A rank that ended with an exception."""
    given = {"frames": FRAMES, "user": user, "step": 120, "phase": "forward", "oom": None, **fields}
    end = record("exception", t, exception=kind, message=message, **given)
    return make_process(make_steps(120), records=[end], clean=False, rank=rank, world=world)
